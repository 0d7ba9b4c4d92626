"""One full assignment of settings, and its one spelling as text."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from nnjit_studio.errors import UserError

if TYPE_CHECKING:
    from nnjit_studio.records.gpu_candidate import AnyCandidate

ORDERS = ("nm", "mn")


@dataclass(frozen=True, order=True)
class Candidate:
    """Settings of the matmul templates; x = columns, y = rows, r = reduction.

    The symbols follow Fig. 10 and Table 1 of the NNJIT paper; sizes are in
    elements.

    Attributes
    ----------
    x0, y0, r0
        Inner tile: columns (a multiple of 4, held in vectors; of dot products
        any number), rows, and the unroll of the reduction.
    x1, y1, r1
        Second tile: what a block keeps in L1. ``r1`` is the depth of a
        reduction block; at K or above the reduction is not blocked.
    order
        Outer loops: ``nm`` walks rows inside a column panel, ``mn`` the other
        way round.
    pack
        Whether B is read from panels of ``x0`` columns instead of row-major.
    """

    x0: int
    y0: int
    r0: int
    x1: int
    y1: int
    r1: int
    order: str = "nm"
    pack: bool = True

    def __str__(self) -> str:
        return ",".join(f"{k}={int(v) if k != 'order' else v}" for k, v in asdict(self).items())

    @classmethod
    def parse(cls, text: str) -> Candidate:
        """Read ``x0=8,y0=6,r0=4,x1=8,y1=6,r1=384,order=nm,pack=1``.

        Raises
        ------
        UserError
            When a setting is unknown, missing or not a number.
        """
        names = [f.name for f in fields(cls)]
        try:
            given = dict(part.split("=", 1) for part in text.replace(" ", "").split(","))
            unknown = set(given) - set(names)
            if unknown:
                raise ValueError(f"unknown setting {sorted(unknown)[0]!r}")
            order = given.pop("order", "nm")
            if order not in ORDERS:
                raise ValueError(f"order must be one of {', '.join(ORDERS)}")
            pack = bool(int(given.pop("pack", "1")))
            sizes = {k: int(v) for k, v in given.items()}
            if any(v < 1 for v in sizes.values()):
                raise ValueError("sizes must be at least 1")
            return cls(**sizes, order=order, pack=pack)
        except (ValueError, TypeError) as e:
            raise UserError(
                f"The candidate {text!r} cannot be read: {e}.",
                "Write it as " + ",".join(f"{n}=..." for n in names) + "; of a GPU's kernel with "
                "split=...,vec=... in place of order and pack.",
            ) from e


DEFAULT_SETTINGS = "default"
"""The settings column of a kernel made by the default schedule (no candidate)."""


def settings_of(candidate: AnyCandidate | None) -> str:
    """Text of a candidate; ``default`` for the default schedule."""
    return DEFAULT_SETTINGS if candidate is None else str(candidate)
