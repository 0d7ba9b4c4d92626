"""Layers of a model by the names of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

DEEPEST = 3
"""Levels of layers above the steps."""


def scopes(name: str) -> tuple[str, ...]:
    """The groups around a node, the outermost first, each as its whole prefix.

    Names are split at slashes, or where there are none at dots; a number stays
    with the word before it (``layer.0``).
    """
    if "/" in name:
        parts = [part for part in name.split("/") if part]
    else:
        parts = re.sub(r"\.(?=\d+(\.|$))", "\0", name).split(".")
        parts = [part.replace("\0", ".") for part in parts]
    return tuple("/".join(parts[:i]) for i in range(1, len(parts)))


def runs(names: Sequence[str], depth: int) -> Iterator[tuple[str, int, int]]:
    """Stretches of the same layer, ``depth`` levels down, in an order of execution.

    Yields
    ------
    tuple
        The layer's whole prefix, and its first and last position in ``names``, both inclusive;
        nodes that lie in no layer of that depth are left out.
    """
    first, prefix = 0, ""
    for place, name in enumerate((*names, "")):
        around = scopes(name)
        here = around[depth] if len(around) > depth and place < len(names) else ""
        if here != prefix:
            if prefix:
                yield prefix, first, place - 1
            first, prefix = place, here


def levels(names: Sequence[str]) -> list[list[tuple[str, int, int]]]:
    """The stretches of each level that says something, the outermost level first.

    One layer around everything says nothing, nor do layers of one step each.
    """
    found = [list(runs(names, depth)) for depth in range(DEEPEST + 2)]
    told = [
        level
        for level in found
        if any(last > first for _, first, last in level)
        and not (len(level) == 1 and level[0][1:] == (0, len(names) - 1))
    ]
    return told[:DEEPEST]
