"""Buckets of workloads, so that a question can name one of 256 and not the kernel."""

from __future__ import annotations

import hashlib

DIGITS = 2


def bucket_of(kind: str, dims: str, dtype: str, layout: str) -> str:
    """The first hexadecimal digits of the workload's SHA-256."""
    name = "\n".join((kind, dims, dtype, layout))
    return hashlib.sha256(name.encode()).hexdigest()[:DIGITS]
