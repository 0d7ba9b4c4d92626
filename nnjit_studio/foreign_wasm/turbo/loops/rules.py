"""Rewrites of single values: broadcasts from memory (exact), and fused multiply-adds (not)."""

from __future__ import annotations

from nnjit_studio.foreign_wasm.turbo.loops.graph import (
    LoopGraph,
    Node,
    Nodes,
    memory_offset,
    reach,
    rewritten,
)
from nnjit_studio.foreign_wasm.turbo.loops.operators import (
    F32X4_ADD,
    F32X4_MADD,
    F32X4_MUL,
    F32X4_NMADD,
    F32X4_SUB,
    F64X2_ADD,
    F64X2_MADD,
    F64X2_MUL,
    F64X2_NMADD,
    F64X2_SUB,
    LOAD32_SPLAT,
    SHUFFLE,
    V128,
    V128_LOAD,
)
from nnjit_studio.wasm_file import leb

_MOST_ALIGNMENT = 2
"""log2 of 4 bytes: no alignment hint may exceed the size of the access."""
_PRODUCTS = (F32X4_MUL, F64X2_MUL)
_ADDING = {F32X4_ADD: (F32X4_MUL, F32X4_MADD), F64X2_ADD: (F64X2_MUL, F64X2_MADD)}
_SUBTRACTING = {F32X4_SUB: (F32X4_MUL, F32X4_NMADD), F64X2_SUB: (F64X2_MUL, F64X2_NMADD)}
_UNFUSED = {
    fused: (mul, plus) for table in (_ADDING, _SUBTRACTING) for plus, (mul, fused) in table.items()
}


def simd(code: int) -> bytes:
    """The bytes of a SIMD opcode."""
    return b"\xfd" + leb.unsigned(code & 0xFFFF)


def broadcasts(graph: LoopGraph) -> LoopGraph:
    """Lane broadcasts of a loaded vector read the lane from memory again.

    A broadcast by shuffle keeps the whole vector alive until its last lane is used. Exact where
    no one else writes that memory meanwhile. The same graph where there is none, or where the
    bodies would no longer read as far, because then they trap in other cases.
    """
    new = broadcasts_from_memory(graph)
    changed = (new.finals, new.condition) != (graph.finals, graph.condition)
    return new if changed and reach(new) == reach(graph) else graph


def broadcasts_from_memory(graph: LoopGraph) -> LoopGraph:
    """The rewrite of :func:`broadcasts`, whatever the new body reads: to compare bodies."""
    nodes = graph.nodes
    return rewritten(graph, lambda node, _: _broadcast(nodes, node))


def _broadcast(nodes: Nodes, node: Node) -> Node | None:
    if node.code != SHUFFLE or node.args[0] != node.args[1]:
        return None
    loaded = nodes[node.args[0]]
    lanes = [lane % 16 for lane in node.text[-16:]]
    first = lanes[0]
    if loaded.code != V128_LOAD or first % 4 or lanes != [first + k % 4 for k in range(16)]:
        return None
    alignment = min(leb.read_unsigned(loaded.text, 2)[0], _MOST_ALIGNMENT)
    offset = memory_offset(loaded.text) + first
    if offset >= 2**32:
        return None
    text = simd(LOAD32_SPLAT) + leb.unsigned(alignment) + leb.unsigned(offset)
    return Node(LOAD32_SPLAT, text, loaded.args, V128)


def fused(graph: LoopGraph) -> LoopGraph:
    """Products that one addition or subtraction takes become relaxed multiply-adds.

    They round once where the original rounds twice, or twice as well: that is the processor's
    choice, so results differ within the error of the rounding.
    """
    nodes, users = graph.nodes, graph.uses()
    alone = {n for n, count in users.items() if count == 1 and nodes[n].code in _PRODUCTS}
    return rewritten(graph, lambda node, old: _fuse(nodes, node, [a in alone for a in old.args]))


def _fuse(nodes: Nodes, node: Node, alone: list[bool]) -> Node | None:
    table = _ADDING if node.code in _ADDING else _SUBTRACTING
    if node.code not in table:
        return None
    mul, code = table[node.code]
    for side in (1, 0) if table is _ADDING else (1,):
        product = nodes[node.args[side]]
        if alone[side] and product.code == mul:
            return Node(code, simd(code), (*product.args, node.args[1 - side]), V128)
    return None


def unfused(graph: LoopGraph) -> LoopGraph:
    """Multiply-adds as products and sums, each sum with its product first: to compare bodies."""
    nodes = graph.nodes
    return rewritten(graph, lambda node, _: _unfuse(nodes, node))


def _unfuse(nodes: Nodes, node: Node) -> Node | None:
    if node.code in _UNFUSED:
        mul, plus = _UNFUSED[node.code]
        product = nodes.add(Node(mul, simd(mul), node.args[:2], V128))
        addend = node.args[2]
        args = (product, addend) if plus in _ADDING else (addend, product)
        return Node(plus, simd(plus), args, V128)
    if node.code in _ADDING:
        first, second = (nodes[a].code in _PRODUCTS for a in node.args)
        # Of two products either may be the fused one.
        if second and (not first or node.args[0] > node.args[1]):
            return Node(node.code, node.text, node.args[::-1], V128)
    return None
