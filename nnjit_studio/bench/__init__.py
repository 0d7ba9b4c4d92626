"""Benchmarks: kernels compared with their peers, compile times, the gain by the passes."""
