"""Kernels that take sizes as parameters."""
