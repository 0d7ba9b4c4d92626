"""NNJIT Studio: tune neural-network kernels in a real browser engine and ship them."""

__version__ = "0.1.0"
