"""Samples of V8's profiler, counted by Wasm function."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from nnjit_studio.engine.devtools.sampling import ThreadProfile
from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.inspection.facts import facts
from nnjit_studio.foreign_wasm.inspection.hotspots.records import Hotspot, Hotspots
from nnjit_studio.support.limits import seconds_for
from nnjit_studio.support.readers import Ended, spread
from nnjit_studio.wasm_file.module import Module, read

_WRAPPERS = ("js-to-wasm:", "wasm-to-js:")
"""Code between the languages, which has the place of the function that it leads to."""
IDLE = ("(idle)", "(root)")
_PARTS = {"(program)": "engine", "(garbage collector)": "garbage collection"}


@dataclass(frozen=True, slots=True)
class Function:
    """A Wasm function by its module's address and its index there."""

    module: str
    index: int


class Frame(NamedTuple):
    """A node of a profile: what it is a part of, and the function if that is Wasm."""

    part: str
    function: Function | None


def hotspots(browser: str, threads: Sequence[ThreadProfile]) -> Hotspots:
    """Count the samples of all threads, and read the modules that the page ran apart.

    Raises
    ------
    WasmError
        When the page ran a module that cannot be read, or takes more time or memory than allowed.
    Stopped
    """
    nbytes = sum(len(code) for thread in threads for code in thread.modules.values())
    try:
        (found,) = spread(partial(counted, browser), [threads], seconds_for(nbytes))
    except Ended as e:
        raise WasmError(f"Reading the page's modules {e}.", e.hint) from e
    return found


def counted(browser: str, threads: Sequence[ThreadProfile]) -> Hotspots:
    """Samples by function, with what is known of the functions."""
    data = {url: code for thread in threads for url, code in thread.modules.items()}
    modules = {url: read(code) for url, code in data.items()}
    own: Counter[Function] = Counter()
    total: Counter[Function] = Counter()
    parts: Counter[str] = Counter()
    busy_threads = 0
    for thread in threads:
        frames = {n["id"]: frame_of(n["callFrame"], modules) for n in thread.profile["nodes"]}
        above = _ancestors(thread.profile["nodes"])
        busy = 0
        for node, us in samples_of(thread.profile):
            frame = frames[node]
            if not frame.part:
                continue
            busy += us
            parts[frame.part] += us
            if frame.function is not None:
                own[frame.function] += us
            for function in {f for n in above[node] if (f := frames[n].function) is not None}:
                total[function] += us
        busy_threads += busy > 0
    busy_us = sum(parts.values())
    found = [_hotspot(modules[f.module], f, us, total[f], busy_us) for f, us in own.most_common()]
    return Hotspots(
        browser,
        tuple(found),
        busy_us / 1000,
        {part: us / 1000 for part, us in parts.most_common()},
        busy_threads,
        {url: len(code) for url, code in data.items()},
    )


def frame_of(call: Mapping[str, Any], modules: Mapping[str, Module]) -> Frame:
    """What a frame of V8 is; idle time is a part without a name.

    A frame of Wasm has the byte offset of its function as the column.
    """
    url, name = call["url"], call["functionName"]
    if url in modules:
        if name.startswith(_WRAPPERS):
            return Frame("wasm", None)
        index = index_at(modules[url], call["columnNumber"])
        return Frame("wasm", None if index is None else Function(url, index))
    if name in IDLE:
        return Frame("", None)
    return Frame(_PARTS.get(name, "javascript"), None)


def index_at(module: Module, offset: int) -> int | None:
    """The function whose body, or its size before that, holds this byte."""
    ends = [end for _, end in module.bodies]
    n = bisect.bisect_right(ends, offset)
    return None if n == len(ends) else n + module.imported_functions


def samples_of(profile: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """The node of each sample and the microseconds until the next; clocks may step back."""
    ids, deltas = profile.get("samples", []), profile.get("timeDeltas", [])
    for node, us in zip(ids, deltas[1:], strict=False):
        yield node, max(0, us)


def parents_of(nodes: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Of each node but the root, the one that called it."""
    return {child: node["id"] for node in nodes for child in node.get("children", ())}


def _ancestors(nodes: Sequence[Mapping[str, Any]]) -> dict[int, list[int]]:
    """Each node with those that called it, itself first; parents come before children."""
    parents = parents_of(nodes)
    found: dict[int, list[int]] = {}
    for node in nodes:
        chain = [node["id"]]
        while chain[-1] in parents:
            chain.append(parents[chain[-1]])
        found[node["id"]] = chain
    return found


def _hotspot(
    module: Module, function: Function, own_us: int, total_us: int, busy_us: int
) -> Hotspot:
    (known,) = facts(module, (function.index,))
    return Hotspot(
        function.module,
        function.index,
        module.name_of(function.index),
        own_us / 1000,
        total_us / 1000,
        own_us / busy_us,
        known,
    )
