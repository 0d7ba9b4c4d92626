"""Primitives of the schedules: what a device prefers, and what all devices agree on.

Paper, section 5.1: a suite changes one primitive of a common matmul at a time;
where the results of all devices agree the primitive is fixed, the others stay
in the space of each device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.records import PRIMITIVE_VECTOR

TEMPLATE, PASS, TIER, SPACE = "template", "pass", "tier", "space"

NOISE = 0.03
"""Differences below this share are no preference, whatever the interval says."""
MIN_DEVICES = 2
"""One device agrees with itself: that is no evidence about others."""


@dataclass(frozen=True)
class Primitive:
    """One choice of the schedules."""

    name: str
    settings: tuple[str, ...]
    """The first is the one in force, with which the others are compared."""
    decided: str
    """Who chooses: the ``template`` (its form has the first setting alone), a ``pass`` of the
    compiler that can be switched, the ``tier`` that the loader picks, or the ``space``, because
    the best setting depends on the shape and is tuned for each."""
    about: str


PRIMITIVES = (
    Primitive("cache_read", ("0", "1"), TEMPLATE, "the tile of A is copied to a buffer first"),
    Primitive("cache_write", ("1", "0"), TEMPLATE, "sums stay in locals until the tile is done"),
    Primitive("vectorize", ("1", "0"), TEMPLATE, "columns in vectors of four"),
    Primitive("pack", ("1", "0"), TEMPLATE, "B is read from panels"),
    Primitive("relaxed_madd", ("1", "0"), TIER, "one multiply-add instead of a product and a sum"),
    Primitive("offset_load_store", ("1", "0"), PASS, "constants in the offset of a load"),
    Primitive("combined_instruction", ("1", "0"), PASS, "load32_splat instead of load and splat"),
    Primitive("load_store_to_variable", ("1", "0"), PASS, "values read again stay in a local"),
    Primitive("unroll", ("4", "1", "2", "8"), SPACE, "r0, steps of the reduction in a body"),
    Primitive("x0", ("8", "4", "16"), SPACE, "columns of the tile"),
    Primitive("order", ("nm", "mn"), SPACE, "outer loops"),
)


@dataclass(frozen=True)
class Effect:
    """One setting compared with the one in force, on the common matmul.

    ``speedup`` is the median with the setting in force over the median with
    this one: above 1 this one is faster; ``low`` and ``high`` bound it with
    95 %. All 0 with an ``error``, all 1 for ``same_bytes``.
    """

    primitive: str
    setting: str
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    same_bytes: bool = False
    error: str = ""
    samples_ms: tuple[float, ...] = ()
    base_ms: tuple[float, ...] = ()

    @property
    def verdict(self) -> str:
        """``faster``, ``slower``, ``even`` or ``failed``."""
        if self.error:
            return "failed"
        if self.low > 1 and self.speedup >= 1 + NOISE:
            return "faster"
        if self.high < 1 and self.speedup <= 1 - NOISE:
            return "slower"
        return "even"


def preference(primitive: Primitive, effects: Iterable[Effect]) -> str:
    """The setting that a device prefers; empty when it has none or one was not measured.

    The fastest of the settings that are faster than the one in force, else
    that one, if all others are slower.
    """
    own = {e.setting: e for e in effects if e.primitive == primitive.name}
    others = [own[s] for s in primitive.settings[1:] if s in own]
    faster = [e for e in others if e.verdict == "faster"]
    if faster:
        return max(faster, key=lambda e: e.speedup).setting
    complete = len(others) == len(primitive.settings) - 1
    return primitive.settings[0] if complete and all(e.verdict == "slower" for e in others) else ""


def consistent_primitives(effects: Mapping[str, Sequence[Effect]]) -> dict[str, str]:
    """Setting of every primitive on whose best setting all devices agree.

    Parameters
    ----------
    effects
        The suite's results by device. Fewer than :data:`MIN_DEVICES` fix
        nothing.
    """
    if len(effects) < MIN_DEVICES:
        return {}
    fixed = {}
    for primitive in PRIMITIVES:
        preferred = {preference(primitive, own) for own in effects.values()}
        if len(preferred) == 1 and (setting := preferred.pop()):
            fixed[primitive.name] = setting
    return fixed


def passes_off(fixed: Mapping[str, str]) -> tuple[str, ...]:
    """Passes of the compiler that every device is better off without."""
    return tuple(p.name for p in PRIMITIVES if p.decided == PASS and fixed.get(p.name) == "0")


def primitive_vector(fixed: Mapping[str, str]) -> str:
    """The primitive vector of a kernel's identity: today's, and what was fixed otherwise.

    Only what changes code is in it. A pass that all devices agree to keep, a
    template's form that no other setting has, and a setting that is tuned for
    each shape change nothing, so records stay known.
    """
    return ",".join((PRIMITIVE_VECTOR, *(f"{name}=0" for name in passes_off(fixed))))
