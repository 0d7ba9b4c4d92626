"""Settings of kernels for any size: compared at several sizes, after one was tuned."""
