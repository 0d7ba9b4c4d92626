"""Running a list of kernel passes: the time of each, and the text after one."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from nnjit_studio.errors import CompileError


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel."""

    data: bytes
    """The Wasm module, or the kernel document of WebGPU."""
    panels: tuple[tuple[int, int], ...]
    """``(argument index, panel width)`` of every argument wanted in panels."""
    parallel_extent: int
    """Trip count of the outermost loop."""
    pass_ms: dict[str, float]
    """Milliseconds by name of pass."""
    dump: str = ""
    """Text after the pass that was asked for, else empty."""


class State(Protocol):
    """What the passes of a list hand on."""

    def text(self) -> str:
        """Of the latest form that there is."""


_S = TypeVar("_S", bound=State)
Passes = Sequence[tuple[str, Callable[[_S], None]]]


def run_passes(
    passes: Passes[_S], state: _S, dump_after: str | None, left_out: Collection[str] = ()
) -> tuple[dict[str, float], str]:
    """Run all but those left out.

    Returns
    -------
    tuple
        Milliseconds by name of pass, and the text after the pass that was asked for.
    """
    pass_ms: dict[str, float] = {}
    dump = ""
    for name, run in passes:
        start = time.perf_counter()
        if name not in left_out:
            run(state)
        pass_ms[name] = 0.0 if name in left_out else (time.perf_counter() - start) * 1e3
        if name == dump_after:
            dump = state.text()
    return pass_ms, dump


def check_name(name: str | None, known: Sequence[str]) -> None:
    """Refuse a pass that is not in the list."""
    if name not in (None, *known):
        raise CompileError(
            f"There is no pass {name} to choose.", f"The passes are {', '.join(known)}."
        )
