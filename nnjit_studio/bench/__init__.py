"""Benchmarks: kernels beside their peers, compile times, the worth of the passes."""
