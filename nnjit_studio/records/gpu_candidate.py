"""One full assignment of settings of a WGSL kernel, and its one spelling as text."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.records.candidate import DEFAULT_SETTINGS, Candidate, Tiles

VECTOR_WIDTHS = (1, 2, 4)


@dataclass(frozen=True, order=True)
class GpuCandidate(Tiles):
    """Settings of the WGSL templates.

    Attributes
    ----------
    x0, y0, r0
        Columns and rows that a thread keeps in registers, and the unroll of
        the reduction inside a tile.
    x1, y1, r1
        Columns and rows that a workgroup computes, and the depth of the tiles
        of A and B that it holds in workgroup memory at a time.
    """

    split: int = 1
    """Parts of the reduction, each a workgroup of its own whose sums are added afterwards; 1
    for none."""
    vec: int = 4
    """Elements of one load or store of global memory: 1, 2 or 4."""

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return (self.x1 // self.x0) * (self.y1 // self.y0)

    def _check(self) -> None:
        if self.vec not in VECTOR_WIDTHS:
            raise ValueError(f"vec must be one of {', '.join(map(str, VECTOR_WIDTHS))}")
        for inner, outer in (("x0", "x1"), ("y0", "y1"), ("r0", "r1")):
            if getattr(self, outer) % getattr(self, inner):
                raise ValueError(f"{outer} must be a multiple of {inner}")


AnyCandidate = Candidate | GpuCandidate


def parse_candidate(text: str) -> AnyCandidate:
    """Either kind of candidate; the setting ``split`` tells a GPU's from a Wasm kernel's.

    Raises
    ------
    UserError
        When the text is neither.
    """
    names = {part.split("=", 1)[0].strip() for part in text.split(",")}
    return GpuCandidate.parse(text) if "split" in names else Candidate.parse(text)


def candidate_of(settings: str) -> AnyCandidate | None:
    """The inverse of :func:`~nnjit_studio.records.candidate.settings_of`, of both kinds.

    Raises
    ------
    UserError
        As of :func:`parse_candidate`.
    """
    return None if settings == DEFAULT_SETTINGS else parse_candidate(settings)
