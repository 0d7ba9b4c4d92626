"""The compiler's version: part of every kernel's identity."""

COMPILER_VERSION = "20"
"""Raised with every change that alters the bytes of some kernel."""

GPU_COMPILER_VERSION = "16"
"""The same for kernels of the GPU tiers."""
