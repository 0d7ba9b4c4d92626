"""The kernel that measures a core's peak: independent multiply-adds in registers."""

from __future__ import annotations

from nnjit_studio.compiler.wasm.encode import encode_module
from nnjit_studio.compiler.wasm.ir import (
    Const,
    Function,
    IfElse,
    LocalGet,
    LocalSet,
    Loop,
    Node,
    Op,
    Store,
    i32,
)
from nnjit_studio.compiler.wasm.vector_math import constant

_CHAINS = 12  # covers 2 multiply-adds a cycle at a latency of 4 to 6 cycles
_ROUNDS = 4
_LANES = 4


def peak_kernel(tier: str) -> tuple[bytes, int]:
    """A module whose ``run(begin, end)`` does ``end - begin`` iterations.

    Returns
    -------
    tuple
        The module, and the floating-point operations of one iteration. The
        module writes bytes 0 to 16 of the memory, so nothing is optimised away.
    """
    function = Function(["begin", "end"])
    # One at a time below 1 and a small addend: the chains converge, no denormals, no infinity.
    factor = function.new_local("v128", "factor")
    addend = function.new_local("v128", "addend")
    chains = [function.new_local("v128", f"chain{i}") for i in range(_CHAINS)]
    body: list[Node] = [
        LocalSet(factor, constant(0.999)),
        LocalSet(addend, Op("f32x4.convert_i32x4_s", (Op("i32x4.splat", (LocalGet(1),)),))),
        *(LocalSet(chain, constant(float(i))) for i, chain in enumerate(chains)),
    ]
    work: list[Node] = []
    for _ in range(_ROUNDS):
        for chain in chains:
            operands = LocalGet(chain), LocalGet(factor)
            if tier == "relaxed-simd":
                value: Node = Op("f32x4.relaxed_madd", (*operands, LocalGet(addend)))
            else:
                value = Op("f32x4.add", (Op("f32x4.mul", operands), LocalGet(addend)))
            work.append(LocalSet(chain, value))
    work.append(LocalSet(0, Op("i32.add", (LocalGet(0), i32(1)))))
    more = Op("i32.lt_s", (LocalGet(0), LocalGet(1)))
    body.append(IfElse(more, [Loop(work, more)]))
    total: Node = Const("v128", bytes(16))
    for chain in chains:
        total = Op("f32x4.add", (total, LocalGet(chain)))
    body.append(Store("v128.store", i32(0), total, 0, "memory"))
    function.body = body
    return encode_module(function), _ROUNDS * _CHAINS * _LANES * 2
