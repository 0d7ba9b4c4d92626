"""The lines of V8's flag ``--trace-wasm-compilation-times``."""

from __future__ import annotations

import re
from dataclasses import dataclass

FLAGS = (
    "--trace-wasm-compilation-times",
    "--no-wasm-lazy-compilation",
    # One helper thread: more of them only take turns on a core, and V8 counts wall-clock time.
    "--wasm-num-compilation-tasks=1",
)
TIERS = {"liftoff": ("--liftoff-only",), "turbofan": ("--no-liftoff",)}
"""The flags that make V8 use one tier."""

# Older versions count whole milliseconds, newer ones microseconds; memory is one figure for
# Liftoff, and peak and sum of TurboFan's zones.
_LINE = re.compile(
    r"Compiled function \S+#(?P<index>\d+) using (?P<tier>\w+), "
    r"took (?P<time>\d+) (?P<unit>ms|μs|µs|us) and (?P<memory>\d+)(?: / \d+ max/total)? bytes; "
    r"bodysize (?P<body>\d+) codesize (?P<code>\d+)"
)


@dataclass(frozen=True, slots=True)
class Compiled:
    """One compiled function; ``memory_bytes`` is the peak of its zones."""

    index: int
    tier: str
    ms: float
    memory_bytes: int
    code_bytes: int


def parse(line: str) -> Compiled | None:
    """What a line says; None when it is of another kind."""
    match = _LINE.match(line)
    if match is None:
        return None
    ms = int(match["time"]) / (1 if match["unit"] == "ms" else 1000)
    tier = match["tier"].lower()
    return Compiled(int(match["index"]), tier, ms, int(match["memory"]), int(match["code"]))
