"""The verbs of the commons."""
