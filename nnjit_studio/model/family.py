"""Kernels whose sizes stay open, by what is the same of them at all sizes and in all models."""

from __future__ import annotations

from dataclasses import dataclass

OPEN = "?"
"""In the text of dims, an extent that follows from sizes."""


@dataclass(frozen=True)
class Family:
    """The workloads that one kernel is at several sizes."""

    kind: str
    dims: tuple[int | None, ...]
    """As those of a :class:`~nnjit_studio.model.Workload`; None where an extent stays open."""
    dtype: str
    epilogue: tuple[str, ...]
    fingerprint: str
    """First 12 hex digits of the sha256 of the tensor IR with formulas in place of the numbers that
    vary, whose dimensions are called by their order and not by their names."""
    at: tuple[str, ...] = ()
    """Keys of the workloads, one for each size."""

    @property
    def extents(self) -> str:
        """The dims as text, such as ``?x384x1536``."""
        return "x".join(OPEN if n is None else str(n) for n in self.dims)

    @property
    def name(self) -> str:
        """As that of a workload."""
        return "+".join((f"{self.kind}:{self.extents}:{self.dtype}", *self.epilogue))

    @property
    def key(self) -> str:
        """Unique, as that of a workload, and the same in every model."""
        return f"{self.name}#{self.fingerprint}"

    @property
    def axis(self) -> int:
        """The place of the first open extent, by which sizes are told apart."""
        return self.dims.index(None)
