"""One full assignment of settings of a WGSL kernel, and its one spelling as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from nnjit_studio.errors import UserError
from nnjit_studio.records.candidate import Candidate

VECTOR_WIDTHS = (1, 2, 4)


@dataclass(frozen=True, order=True)
class GpuCandidate:
    """Settings of the WGSL templates; x = columns, y = rows, r = reduction.

    The symbols follow Fig. 10 and Table 1 of the NNJIT paper; sizes are in
    elements.

    Attributes
    ----------
    x0, y0, r0
        Columns and rows that a thread keeps in registers, and the unroll of
        the reduction inside a tile.
    x1, y1, r1
        Columns and rows that a workgroup computes, and the depth of the tiles
        of A and B that it holds in workgroup memory at a time.
    split
        Parts of the reduction, each a workgroup of its own whose sums are
        added afterwards; 1 for none.
    vec
        Elements of one load or store of global memory: 1, 2 or 4.
    """

    x0: int
    y0: int
    r0: int
    x1: int
    y1: int
    r1: int
    split: int = 1
    vec: int = 4

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return (self.x1 // self.x0) * (self.y1 // self.y0)

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in asdict(self).items())

    @classmethod
    def parse(cls, text: str) -> GpuCandidate:
        """Read ``x0=8,y0=8,r0=1,x1=64,y1=64,r1=16,split=1,vec=4``.

        Raises
        ------
        UserError
            When a setting is unknown, missing, not a number, or when threads
            do not tile the workgroup.
        """
        names = [f.name for f in fields(cls)]
        try:
            given = dict(part.split("=", 1) for part in text.replace(" ", "").split(","))
            unknown = set(given) - set(names)
            if unknown:
                raise ValueError(f"unknown setting {sorted(unknown)[0]!r}")
            sizes = {name: int(value) for name, value in given.items()}
            if any(value < 1 for value in sizes.values()):
                raise ValueError("sizes must be at least 1")
            candidate = cls(**sizes)
            if candidate.vec not in VECTOR_WIDTHS:
                raise ValueError(f"vec must be one of {', '.join(map(str, VECTOR_WIDTHS))}")
            for inner, outer in (("x0", "x1"), ("y0", "y1"), ("r0", "r1")):
                if getattr(candidate, outer) % getattr(candidate, inner):
                    raise ValueError(f"{outer} must be a multiple of {inner}")
            return candidate
        except (ValueError, TypeError) as e:
            raise UserError(
                f"The candidate {text!r} cannot be read: {e}.",
                "Write it as " + ",".join(f"{n}=..." for n in names) + ".",
            ) from e


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
