"""Wrong rewrites, planted into right ones."""

from __future__ import annotations

import random
from collections.abc import Callable

from nnjit_studio.foreign_wasm.turbo.loops.find import Function, Loop
from nnjit_studio.foreign_wasm.turbo.loops.graph import LoopGraph, Node, memory_offset, of_roots
from nnjit_studio.foreign_wasm.turbo.loops.operators import LOADS, LOCAL_GET
from nnjit_studio.foreign_wasm.turbo.loops.rewrite import rebuilt
from nnjit_studio.foreign_wasm.turbo.loops.rules import simd
from nnjit_studio.foreign_wasm.turbo.loops.schedule import plans
from nnjit_studio.foreign_wasm.turbo.loops.variants import SCHEDULE, Variant
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.opcodes import CODES

Change = Callable[[random.Random, LoopGraph, int], "Node | None"]
_OTHER = {
    CODES[a]: CODES[b]
    for pair in ("add sub", "mul add", "min max", "sub mul", "max min")
    for a, b in [tuple(f"f32x4.{word}" for word in pair.split())]
}


def _swap(rng: random.Random, graph: LoopGraph, number: int) -> Node | None:
    node = graph.nodes[number]
    if len(node.args) != 2 or node.args[0] == node.args[1]:
        return None
    if len({graph.nodes[a].type for a in node.args}) == 2:
        return None
    return Node(node.code, node.text, node.args[::-1], node.type)


def _move(rng: random.Random, graph: LoopGraph, number: int) -> Node | None:
    """A load from another place."""
    node = graph.nodes[number]
    if node.code not in LOADS:
        return None
    start = 2 if node.text[0] == 0xFD else 1
    _, after = leb.read_unsigned(node.text, start)
    offset = memory_offset(node.text) + rng.choice((1, 4, 16))
    return Node(node.code, node.text[:after] + leb.unsigned(offset), node.args, node.type)


def _operator(rng: random.Random, graph: LoopGraph, number: int) -> Node | None:
    node = graph.nodes[number]
    if node.code not in _OTHER:
        return None
    other = _OTHER[node.code]
    return Node(other, simd(other), node.args, node.type)


def _operand(rng: random.Random, graph: LoopGraph, number: int) -> Node | None:
    """Another value of the same type, from before so that no circle comes up."""
    node = graph.nodes[number]
    if not node.args:
        return None
    place = rng.randrange(len(node.args))
    kind = graph.nodes[node.args[place]].type
    others = [n for n in graph.order if n < number and graph.nodes[n].type == kind]
    others = [n for n in others if n != node.args[place]]
    if not others:
        return None
    args = list(node.args)
    args[place] = rng.choice(others)
    return Node(node.code, node.text, tuple(args), node.type)


def _associate(rng: random.Random, graph: LoopGraph, number: int) -> Node | None:
    """``(a + b) + c`` as ``a + (b + c)``, which rounds in another way."""
    node = graph.nodes[number]
    if node.code != CODES["f32x4.add"] or graph.nodes[node.args[0]].code != node.code:
        return None
    (a, b), c = graph.nodes[node.args[0]].args, node.args[1]
    inner = graph.nodes.add(Node(node.code, node.text, (b, c), node.type))
    return Node(node.code, node.text, (a, inner), node.type)


CHANGES: tuple[Change, ...] = (_swap, _move, _operator, _operand, _associate)


def planted(rng: random.Random, function: Function, loop: Loop) -> bytes | None:
    """The function with one wrong value in its loop; None when the draw changes nothing."""
    graph = loop.graph
    if rng.random() < 0.15:
        wrong = _wrong_finals(rng, graph)
    else:
        change = rng.choice(CHANGES)
        number = rng.choice(graph.order)
        node = change(rng, graph, number) if graph.nodes[number].code != LOCAL_GET else None
        wrong = _replaced(graph, number, graph.nodes.add(node)) if node else None
    if wrong is None or (wrong.finals, wrong.condition) == (graph.finals, graph.condition):
        return None
    plan = next(plans(wrong))
    return rebuilt(function, {loop.first: (loop, Variant(SCHEDULE, wrong, plan))})


def _wrong_finals(rng: random.Random, graph: LoopGraph) -> LoopGraph | None:
    """Two locals change places, or one keeps what it held before."""
    finals = dict(graph.finals)
    a = rng.choice(list(finals))
    same = [
        local
        for local, n in finals.items()
        if local != a and graph.nodes[n].type == graph.nodes[finals[a]].type
    ]
    if same and rng.random() < 0.5:
        b = rng.choice(same)
        finals[a], finals[b] = finals[b], finals[a]
    else:
        del finals[a]
    return of_roots(graph.nodes, finals, graph.condition)


def _replaced(graph: LoopGraph, old: int, new: int) -> LoopGraph:
    """The graph with one node in the place of another, wherever it is taken."""
    nodes = graph.nodes
    moved: dict[int, int] = {}

    def move(number: int) -> int:
        if number == old:
            return new
        if number not in moved:
            node = nodes[number]
            args = tuple(map(move, node.args))
            moved[number] = nodes.add(Node(node.code, node.text, args, node.type))
        return moved[number]

    finals = {local: move(n) for local, n in graph.finals.items()}
    return of_roots(nodes, finals, move(graph.condition))
