"""Kernels that show what a device can do: one property each, nothing else in the way."""
