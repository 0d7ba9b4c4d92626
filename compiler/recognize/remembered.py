"""A cache for recognisers: the same program is asked about for many candidates in a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from nnjit_studio.compiler.ir.tensor_ir import Program

_T = TypeVar("_T")
_MOST = 256


def remembered(function: Callable[[Program], _T]) -> Callable[[Program], _T]:
    """The function with a memory of the programs that it was last asked about.

    By identity, because hashing a program costs as much as reading it; an
    entry keeps its program alive, so its identity stays its own.
    """
    recent: dict[int, tuple[Program, _T]] = {}

    @wraps(function)
    def ask(program: Program) -> _T:
        found = recent.get(id(program))
        if found is None:
            if len(recent) >= _MOST:
                recent.clear()
            found = recent[id(program)] = program, function(program)
        return found[1]

    return ask
