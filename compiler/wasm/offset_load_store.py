"""Pass ``offset_load_store``: constants of addresses become offset immediates (paper, 4.3 (1))."""

from __future__ import annotations

from nnjit_studio.compiler.wasm.ir import Const, Function, Load, LocalGet, Node, Op, Store, rebuild


def offset_load_store(function: Function) -> None:
    """Fold ``address + constant`` into the offset of every load and store.

    An immediate is added without wrapping, ``i32.add`` wraps. The lowering
    writes a constant as the outermost addend only where the rest of the
    address cannot be negative, so both agree; negative constants stay.
    """
    function.body = [_fold(node) for node in function.body]


def _fold(node: Node) -> Node:
    if type(node) is LocalGet or type(node) is Const:
        return node
    node = rebuild(node, _fold)
    if not isinstance(node, (Load, Store)):
        return node
    address, offset = node.address, node.offset
    while isinstance(address, Op) and address.name == "i32.add":
        constant = address.args[1]
        if not (isinstance(constant, Const) and int(constant.value) >= 0):
            break
        offset += int(constant.value)
        address = address.args[0]
    if address is node.address:
        return node
    if isinstance(node, Load):
        return Load(node.op, address, offset, node.buffer, node.vector, node.lane)
    return Store(node.op, address, node.value, offset, node.buffer, node.lane)
