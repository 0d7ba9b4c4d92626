"""Where the fixed values of a nest lie when it begins: in locals."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import Atom, Lanes, Linear, Scalar
from nnjit_studio.foreign_wasm.offload.lift.walk import Lifted
from nnjit_studio.foreign_wasm.offload.lower import Lowered
from nnjit_studio.foreign_wasm.offload.nest import RESULT, Nest


@dataclass(frozen=True)
class Held:
    """A local that holds ``atom + constant``; of a vector, the lane."""

    local: int
    constant: int = 0
    lane: int = -1


def holders(lifted: Lifted) -> dict[Atom, Held]:
    """A local for each symbol that one holds at the head of the nest."""
    found: dict[Atom, Held] = {}
    for x, value in enumerate(lifted.before):
        if isinstance(value, Linear) and len(value.terms) == 1 and value.terms[0][1] == 1:
            found.setdefault(value.terms[0][0], Held(x, value.constant))
        elif isinstance(value, Scalar):
            found[value.atom] = Held(x)
        elif isinstance(value, Lanes):
            for lane, part in enumerate(value.lanes):
                if isinstance(part, Scalar):
                    found.setdefault(part.atom, Held(x, lane=lane))
    return found


def check_held(lifted: Lifted, nest: Nest, lowered: Lowered) -> None:
    """Refuse a nest that needs a value which is in no local.

    Raises
    ------
    Refused
    """
    bases = [*(w.base for w in lowered.inputs), *(t.base for t in lowered.targets)]
    needed = {a for base in (*bases, *nest.finals.values()) for a, _ in base.terms}
    needed |= set(lowered.scalars)
    if needed - {RESULT} - holders(lifted).keys():
        raise Refused("address")
