"""How often Python looks for cycles of garbage.

It does after each 700 new objects, and what a program loads or a compiler makes stays: a third of
the time that the command line and TVM took to load went into looking for garbage among it.
"""

from __future__ import annotations

import gc

OFTEN = (700, 10, 10)
"""Python's own thresholds, of its three generations."""
SELDOM = (20_000, 20, 50)


def look_seldom() -> None:
    """From now on; to be called before large modules are loaded."""
    gc.set_threshold(*SELDOM)
