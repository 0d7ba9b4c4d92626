"""Which candidate next, and of which workload: cost model, search strategy, task scheduler."""
