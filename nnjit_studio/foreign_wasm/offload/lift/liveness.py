"""Which locals are read behind a block of a function before they are set."""

from __future__ import annotations

from collections.abc import Collection

from nnjit_studio.foreign_wasm.offload.lift.code import Code
from nnjit_studio.wasm_file.flow.liveness import live_at

_HANDLERS = ("try", "try_table", "delegate")


def live_behind(code: Code, ends: Collection[int]) -> dict[int, frozenset[int]]:
    """The live locals behind each of these ends; all, where a function handles exceptions.

    Raises
    ------
    WasmError
        When a branch leads out of the function.
    """
    everything = range(len(code.types))
    if any(name in _HANDLERS or name.startswith("br_on") for name in code.names):
        return dict.fromkeys(ends, frozenset(everything))
    live = live_at(code.body)
    return {end: frozenset(x for x in everything if live[end + 1] >> x & 1) for end in ends}
