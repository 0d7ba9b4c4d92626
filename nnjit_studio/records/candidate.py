"""One full assignment of settings, and its one spelling as text."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar

from nnjit_studio.errors import UserError

ORDERS = ("nm", "mn")
_T = TypeVar("_T", bound="Tiles")


@dataclass(frozen=True, order=True)
class Tiles:
    """Settings of both backends' templates; x = columns, y = rows, r = reduction.

    The symbols follow Fig. 10 and Table 1 of the NNJIT paper; sizes are in
    elements.
    """

    x0: int
    y0: int
    r0: int
    x1: int
    y1: int
    r1: int

    SPELT: ClassVar[str] = ""
    """What the hint of a spelling that cannot be read says after the settings' names."""

    def __str__(self) -> str:
        return ",".join(
            f"{name}={value if isinstance(value, str) else int(value)}"
            for name, value in asdict(self).items()
        )

    @classmethod
    def parse(cls: type[_T], text: str) -> _T:
        """Read ``x0=8,y0=6,r0=4,x1=8,y1=6,r1=384,...``.

        Raises
        ------
        UserError
            When a setting is unknown, missing or not a number, or settings contradict.
        """
        names = [f.name for f in fields(cls)]
        parts = [part.partition("=") for part in text.replace(" ", "").split(",")]
        given = {name: word for name, _, word in parts}
        missing = [f.name for f in fields(cls) if f.default is MISSING and f.name not in given]
        try:
            unknown = set(given) - set(names)
            if unknown:
                raise ValueError(f"unknown setting {sorted(unknown)[0]!r}")
            if missing:
                raise ValueError(f"it does not set {', '.join(missing)}")
            made = cls(**{name: cls._value(name, word) for name, word in given.items()})
            made._check()
            return made
        except ValueError as e:
            raise UserError(
                f"The candidate {text!r} cannot be read: {e}.",
                f"Write it as {','.join(f'{n}=...' for n in names)}{cls.SPELT}.",
            ) from e

    @classmethod
    def _value(cls, name: str, word: str) -> Any:
        if not word.isdecimal() or int(word) < 1:
            raise ValueError(f"{name} must be a number of at least 1")
        return int(word)

    def _check(self) -> None:
        """Refuse settings that contradict each other, by a ValueError."""


@dataclass(frozen=True, order=True)
class Candidate(Tiles):
    """Settings of the Wasm templates.

    Attributes
    ----------
    x0, y0, r0
        Inner tile: columns (a multiple of 4, held in vectors; of dot products
        any number), rows, and the unroll of the reduction.
    x1, y1, r1
        Second tile: what a block keeps in L1. ``r1`` is the depth of a
        reduction block; at K or above the reduction is not blocked.
    """

    order: str = "nm"
    """Outer loops: ``nm`` walks rows inside a column panel, ``mn`` the other way round."""
    pack: bool = True
    """Whether B is read from panels of ``x0`` columns instead of row-major."""

    SPELT: ClassVar[str] = "; of a GPU's kernel with split=...,vec=... in place of order and pack"

    @classmethod
    def _value(cls, name: str, word: str) -> Any:
        if name == "pack":
            return bool(int(word))
        if name != "order":
            return super()._value(name, word)
        if word not in ORDERS:
            raise ValueError(f"order must be one of {', '.join(ORDERS)}")
        return word


DEFAULT_SETTINGS = "default"
"""The settings column of a kernel made by the default schedule (no candidate)."""


def settings_of(candidate: Tiles | None) -> str:
    """Text of a candidate; ``default`` for the default schedule."""
    return DEFAULT_SETTINGS if candidate is None else str(candidate)
