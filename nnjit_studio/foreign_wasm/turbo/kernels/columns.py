"""Sums on their way into C: whole vectors, and halves and quarters of one."""

from __future__ import annotations

from nnjit_studio.compiler.wasm.ir import Load, LocalGet, Node, Op, Store

_LOADS = {"v128": "v128.load", "v64": "v128.load64_zero", "v32": "v128.load32_zero"}
_STORES = {
    "v128": ("v128.store", -1),
    "v64": ("v128.store64_lane", 0),
    "v32": ("v128.store32_lane", 0),
}


def stored(width: str, c: int, total: int, offset: int, adds: bool) -> Node:
    """The first bits of a sum written to C, or added to what is there."""
    value: Node = LocalGet(total)
    if adds:
        value = Op("f32x4.add", (value, Load(_LOADS[width], LocalGet(c), offset, "C")))
    store, lane = _STORES[width]
    return Store(store, LocalGet(c), value, offset, "C", lane)
