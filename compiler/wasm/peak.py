"""The kernel that measures a core's peak: independent multiply-adds in registers."""

from __future__ import annotations

from nnjit_studio.compiler.wasm.encode import encode_module
from nnjit_studio.compiler.wasm.ir import (
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
_WIDE_CHAINS = 24  # as many of twice the width
_ROUNDS = 4
_LANES = 4


def peak_kernel(tier: str, wide: bool = False) -> tuple[bytes, int]:
    """A module whose ``run(begin, end)`` does ``end - begin`` iterations.

    Parameters
    ----------
    wide
        For an engine that packs pairs of vectors: twice the chains, stored
        side by side, for such stores are where the packing starts. Without
        packing its chains do not fit the registers.

    Returns
    -------
    tuple
        The module, and the floating-point operations of one iteration. The
        module writes the first bytes of the memory, 16 for each chain (at most
        384), so nothing is optimised away.
    """
    function = Function(["begin", "end"])
    # One at a time below 1 and a small addend: the chains converge, no denormals, no infinity.
    factor = function.new_local("v128", "factor")
    addend = function.new_local("v128", "addend")
    chains = [
        function.new_local("v128", f"chain{i}") for i in range(_WIDE_CHAINS if wide else _CHAINS)
    ]
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
    body += [
        Store("v128.store", i32(0), LocalGet(chain), 16 * place, "memory")
        for place, chain in enumerate(chains)
    ]
    function.body = body
    return encode_module(function), _ROUNDS * len(chains) * _LANES * 2
