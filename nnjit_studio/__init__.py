"""NNJIT Studio: tune neural-network kernels in a real browser engine and ship them."""

import os

# ONNX Runtime sends telemetry and keeps a device id unless this is set before it is imported.
# Every process of the Studio imports this package first, and its children inherit the variable.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
# Matrices here are small, and OpenBLAS's threads wait busily on cores that the page measures on.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

__version__ = "0.1.0"
