"""What is run to price a loop; it needs no compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

CALLS = 8


@dataclass(frozen=True)
class Fault:
    """``kind`` is a row of the page's table; ``begins`` the first wrong run, from 0."""

    kind: str
    begins: int


@dataclass(frozen=True)
class Case:
    """A function that is called as it is and rewritten, on the same random memory.

    Attributes
    ----------
    regions
        Offset in bytes and floats of what is random before a call, and compared after it.
    always
        Run on the GPU whatever it costs.
    lose
        The call before which the device is lost; -1 for none.
    slow
        Calls of the original, 0 for all.
    varied
        Memory of another kind at each call: whole numbers, large ones, what is not finite.
    fault
        What the device does wrong and from which run on (resources/bench/offload/faults.js).
    """

    name: str
    module: bytes
    entry: str
    args: tuple[float, ...]
    regions: tuple[tuple[int, int], ...]
    calls: int = CALLS
    always: bool = False
    lose: int = -1
    slow: int = 0
    varied: bool = False
    fault: Fault | None = None


@dataclass(frozen=True)
class Loop:
    """A loop as ``loop_json`` of ``report`` tells it; ``case`` where it can run alone on a GPU."""

    told: dict[str, Any]
    case: Case | None
