"""Microbenchmark kernels: each measures one property of a device."""
