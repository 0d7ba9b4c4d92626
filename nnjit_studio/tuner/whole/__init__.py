"""The whole model: what the machine gives it, and what the tuned kernels are worth in it."""
