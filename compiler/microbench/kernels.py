"""Kernels of the device experiments. Each exports ``run(begin, end)``, ``end - begin`` iterations.

All of them work on a zeroed memory of the page (docs/protocol.md, ``rates``):
the first :data:`BASE` bytes are theirs for results, what they read lies behind.
"""

from __future__ import annotations

from nnjit_studio.compiler.wasm.encode import encode_module
from nnjit_studio.compiler.wasm.ir import (
    Function,
    IfElse,
    Load,
    LocalGet,
    LocalSet,
    Loop,
    Node,
    Op,
    Store,
    i32,
)
from nnjit_studio.compiler.wasm.vector_math import constant

BASE = 1024
"""Address where the data of every kernel begins."""
LANES = 4
VECTOR_BYTES = 16
SPILL_STEPS = 2
"""Steps of the reduction in one iteration of a spill kernel."""
SPILL_COLUMNS = 2
"""Vectors of B in a step of a spill kernel: with one alone, loads would be the limit."""
SPILL_OPERANDS = SPILL_COLUMNS + 1
"""Registers of a step other than the accumulators: vectors of B, one element of A in all lanes."""
CHASE_HOPS = 8
"""Hops that the chase is unrolled by; iterations come in multiples of it."""
BLOCK_BYTES = 64 * 1024
"""Bytes that one iteration of the streaming kernels reads."""
STREAMS = 8
"""Vectors on the way at once in the streaming kernels."""

BEGIN, END = 0, 1


def spill_kernel(accumulators: int, tier: str) -> tuple[bytes, int]:
    """The inner step of a matmul with so many accumulators: rows of :data:`SPILL_COLUMNS` vectors.

    Returns
    -------
    tuple
        The module, and the floating-point operations of one iteration.
    """
    function = Function(["begin", "end"])
    sums = [function.new_local("v128", f"sum{i}") for i in range(accumulators)]
    columns = [function.new_local("v128", f"b{j}") for j in range(SPILL_COLUMNS)]
    a, place = function.new_local("v128", "a"), function.new_local("i32", "place")
    # Another 64 bytes of 8 KiB in every iteration: nothing here can be computed ahead.
    offset = Op("i32.and", (Op("i32.shl", (LocalGet(BEGIN), i32(6))), i32(8192 - 64)))
    work: list[Node] = [LocalSet(place, offset)]
    at_a, at_b = BASE, BASE + 16384

    def load(op: str, offset: int) -> Node:
        return Load(op, LocalGet(place), offset, "memory")

    for _ in range(SPILL_STEPS):
        for b in columns:
            work.append(LocalSet(b, load("v128.load", at_b)))
            at_b += VECTOR_BYTES
        for i, total in enumerate(sums):
            if i % SPILL_COLUMNS == 0:
                work.append(LocalSet(a, load("v128.load32_splat", at_a)))
                at_a += 4
            factors = LocalGet(a), LocalGet(columns[i % SPILL_COLUMNS])
            if tier == "relaxed-simd":
                value = Op("f32x4.relaxed_madd", (*factors, LocalGet(total)))
            else:
                value = Op("f32x4.add", (LocalGet(total), Op("f32x4.mul", factors)))
            work.append(LocalSet(total, value))
    zeros = [LocalSet(total, constant(0.0)) for total in sums]
    function.body = [*zeros, *_iterate(work, 1), *_store_all(sums)]
    return encode_module(function), SPILL_STEPS * accumulators * LANES * 2


def chase_kernel() -> bytes:
    """One hop an iteration along addresses in memory; goes on where the call before ended.

    The place is kept at address 0, so that a lap longer than a call is still
    walked as a whole.
    """
    function = Function(["begin", "end"])
    place = function.new_local("i32", "place")
    hop = LocalSet(place, Load("i32.load", LocalGet(place), 0, "memory"))
    function.body = [
        LocalSet(place, Load("i32.load", i32(0), 0, "memory")),
        *_iterate([hop] * CHASE_HOPS, CHASE_HOPS),
        Store("i32.store", i32(0), LocalGet(place), 0, "memory"),
    ]
    return encode_module(function)


def read_kernel() -> bytes:
    """Reads a block of :data:`BLOCK_BYTES` an iteration, in order, by vectors."""
    function = Function(["begin", "end"])
    sums = [function.new_local("v128", f"sum{i}") for i in range(STREAMS)]
    address, limit = _block_locals(function)
    body: list[Node] = []
    for i, total in enumerate(sums):
        loaded = Load("v128.load", LocalGet(address), i * VECTOR_BYTES, "memory")
        body.append(LocalSet(total, Op("v128.or", (LocalGet(total), loaded))))
    work = _walk_block(address, limit, body)
    function.body = [*_iterate(work, 1), *_store_all(sums)]
    return encode_module(function)


def copy_kernel(distance_bytes: int) -> bytes:
    """Copies a block an iteration to ``distance_bytes`` behind it, by vectors."""
    function = Function(["begin", "end"])
    address, limit = _block_locals(function)
    body: list[Node] = []
    for i in range(STREAMS):
        at = i * VECTOR_BYTES
        loaded = Load("v128.load", LocalGet(address), at, "memory")
        body.append(Store("v128.store", LocalGet(address), loaded, at + distance_bytes, "memory"))
    function.body = _iterate(_walk_block(address, limit, body), 1)
    return encode_module(function)


def _iterate(work: list[Node], step: int) -> list[Node]:
    more = Op("i32.lt_s", (LocalGet(BEGIN), LocalGet(END)))
    advance = LocalSet(BEGIN, Op("i32.add", (LocalGet(BEGIN), i32(step))))
    return [IfElse(more, [Loop([*work, advance], more)])]


def _store_all(sums: list[int]) -> list[Node]:
    return [
        Store("v128.store", i32(0), LocalGet(total), place * VECTOR_BYTES, "memory")
        for place, total in enumerate(sums)
    ]


def _block_locals(function: Function) -> tuple[int, int]:
    return function.new_local("i32", "address"), function.new_local("i32", "limit")


def _walk_block(address: int, limit: int, body: list[Node]) -> list[Node]:
    block = Op("i32.mul", (LocalGet(BEGIN), i32(BLOCK_BYTES)))
    end = Op("i32.add", (LocalGet(address), i32(BLOCK_BYTES)))
    onward = Op("i32.add", (LocalGet(address), i32(STREAMS * VECTOR_BYTES)))
    again = Op("i32.lt_u", (LocalGet(address), LocalGet(limit)))
    return [
        LocalSet(address, Op("i32.add", (block, i32(BASE)))),
        LocalSet(limit, end),
        Loop([*body, LocalSet(address, onward)], again),
    ]
