"""A small module in which a loop and its other bodies run alone, as often as wanted.

A loop of one block calls and stores nothing, so it can leave its function: what its locals hold
before comes from memory, and what they hold afterwards goes there.

Memory, in bytes: at 0 the most iterations of a run, at 4 the number of runs, at 8 whether the
loop goes on without asking its condition (for timing: a random condition ends at once), at 12 what
the condition was last; from :data:`GIVEN` the locals of before, from :data:`RESULTS` those of
afterwards, :data:`SLOT` bytes each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from nnjit_studio.foreign_wasm.turbo.loops.emit import FreshLocals, emit
from nnjit_studio.foreign_wasm.turbo.loops.find import Function, Loop
from nnjit_studio.foreign_wasm.turbo.loops.graph import LoopGraph
from nnjit_studio.foreign_wasm.turbo.loops.operators import (
    F32,
    F64,
    I32,
    I64,
    LOCAL_GET,
    V128,
)
from nnjit_studio.foreign_wasm.turbo.loops.variants import Variant
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.instructions import code
from nnjit_studio.wasm_file.parts import SHARED_MEMORY, WIDE_MEMORY, Limits
from nnjit_studio.wasm_file.sections import function_type, module_of, sized, text

GIVEN, RESULTS, SLOT = 64, 32768, 16
MOST_SLOTS = (RESULTS - GIVEN) // SLOT
MOST_PAGES = 65536
_LOAD = {I32: b"\x28", I64: b"\x29", F32: b"\x2a", F64: b"\x2b", V128: b"\xfd\x00"}
_STORE = {I32: b"\x36", I64: b"\x37", F32: b"\x38", F64: b"\x39", V128: b"\xfd\x0b"}
_ZERO, _WIDE_ZERO = b"\x41\x00", b"\x42\x00"
_LOOP, _END, _BR_IF = b"\x03\x40", b"\x0b", b"\x0d\x00"
_IS_NOT_ZERO, _OR, _AND, _LESS_ONE = b"\x45\x45", b"\x72", b"\x71", b"\x41\x01\x6b"


def read_locals(graph: LoopGraph) -> dict[int, int]:
    """The locals that a body reads from before, with their types."""
    nodes = (graph.nodes[n] for n in graph.order)
    read = {
        leb.read_unsigned(node.text, 1)[0]: node.type for node in nodes if node.code == LOCAL_GET
    }
    return dict(sorted(read.items()))


def loop_module(
    function: Function, memory: Limits, cases: Sequence[tuple[Loop, Sequence[Variant]]]
) -> bytes:
    """Exports ``o{first}`` for each loop's own body and ``v{first}_{n}`` for its variants.

    All are functions without parameters; the memory is imported as ``e.m``, and is shared or
    addressed with 64 bits if that of the original is.
    """
    zero = _WIDE_ZERO if memory.in_64_bits else _ZERO
    runs: dict[str, bytes] = {}
    for loop, variants in cases:
        runs[f"o{loop.first}"] = _run(function, zero, loop, None)
        for n, variant in enumerate(variants):
            runs[f"v{loop.first}_{n}"] = _run(function, zero, loop, variant)
    limits = (
        bytes([memory.flags & (SHARED_MEMORY | WIDE_MEMORY) | 1])
        + leb.unsigned(1)
        + leb.unsigned(MOST_PAGES)
    )
    return module_of(
        {
            "type": [function_type(b"", b"")],
            "import": [text("e") + text("m") + b"\x02" + limits],
            "function": [b"\0"] * len(runs),
            "export": [text(name) + b"\0" + leb.unsigned(n) for n, name in enumerate(runs)],
            "code": [*map(sized, runs.values())],
        }
    )


def _run(function: Function, zero: bytes, loop: Loop, variant: Variant | None) -> bytes:
    """A function that runs a body, without a variant the loop's own; ``zero`` is an address."""
    load, store = partial(_load, zero), partial(_store, zero)
    fresh = FreshLocals(len(function.types))
    if variant is None:
        found = function.body.instructions
        body = function.data[found[loop.first].start : found[loop.stop - 1].start]
    else:
        body = emit(variant.graph, variant.plan.steps, fresh)[: -len(_BR_IF)]
    fresh.next_loop()
    goes_on, left, runs = (_fresh_one(fresh) for _ in range(3))
    given = b"".join(
        load(GIVEN + SLOT * n, kind) + _set(local)
        for n, (local, kind) in enumerate(read_locals(loop.graph).items())
    )
    kinds = {local: loop.graph.nodes[n].type for local, n in loop.graph.finals.items()}
    results = b"".join(
        store(RESULTS + SLOT * n, kind, local)
        for n, (local, kind) in enumerate((*kinds.items(), (left, I32)))
    )
    whole = (
        (load(4, I32), _set(runs), _LOOP, given, load(0, I32), _set(left), _LOOP, body),
        (_IS_NOT_ZERO, _set(goes_on), _get(left), _LESS_ONE, _set(left)),
        (_get(goes_on), load(8, I32), _OR, _get(left), _IS_NOT_ZERO, _AND, _BR_IF, _END),
        (_get(runs), _LESS_ONE, _set(runs), _get(runs), _BR_IF, _END),
        (store(12, I32, goes_on), results, _END),
    )
    # Locals that hold references are not the loop's.
    types = [*(kind if kind in _LOAD else I32 for kind in function.types), *fresh.types]
    declared = leb.unsigned(len(types)) + b"".join(b"\x01" + bytes((kind,)) for kind in types)
    return declared + b"".join(b"".join(line) for line in whole)


def _fresh_one(fresh: FreshLocals) -> int:
    """An i32 that no body uses: locals of bodies begin with those of the variant."""
    fresh.types.append(I32)
    return fresh.first + len(fresh.types) - 1


_get, _set = partial(code, "local.get"), partial(code, "local.set")


def _load(zero: bytes, address: int, kind: int) -> bytes:
    return zero + _LOAD[kind] + b"\x00" + leb.unsigned(address)


def _store(zero: bytes, address: int, kind: int, local: int) -> bytes:
    return zero + _get(local) + _STORE[kind] + b"\x00" + leb.unsigned(address)
