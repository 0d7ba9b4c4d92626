"""The plan of a model tuned: choices of its import, measured inside the page."""
