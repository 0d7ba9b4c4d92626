"""The schema of what travels to a server of the commons: settings and times, nothing else."""
