"""The loops of a function that can be computed in another order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from nnjit_studio.foreign_wasm.turbo.loops.graph import (
    LoopGraph,
    Nodes,
    given,
    of_roots,
    reach,
    reachable,
)
from nnjit_studio.foreign_wasm.turbo.loops.lift import NotLiftable, lift
from nnjit_studio.foreign_wasm.turbo.loops.operators import BR_IF, V128
from nnjit_studio.wasm_file.flow.liveness import live_at
from nnjit_studio.wasm_file.flow.nest import loops
from nnjit_studio.wasm_file.instructions import Body, decode
from nnjit_studio.wasm_file.module import Module

_EMPTY = -64
"""Block type without parameters and results."""


@dataclass(frozen=True)
class Function:
    """A decoded function; ``types`` are those of its parameters and locals."""

    index: int
    data: bytes
    body: Body
    types: bytes


@dataclass(frozen=True)
class Loop:
    """A loop of one block that ends in ``br_if 0``.

    Attributes
    ----------
    first, stop
        Positions of the body's instructions; ``stop`` is one past the ``br_if``.
    graph
        What the body computes; locals that nobody reads afterwards have no final in it.
    """

    first: int
    stop: int
    graph: LoopGraph


def decoded(module: Module, index: int) -> Function:
    """A function of the module.

    Raises
    ------
    WasmError
        When its body holds what the decoder does not know.
    """
    data = module.body(index)
    body = decode(data)
    return Function(index, data, body, bytes(module.type_of(index).params) + body.locals)


def vector_loops(function: Function) -> Iterator[Loop | str]:
    """Loops that carry vectors from one iteration to the next, or why one is left alone."""
    code = function.body.instructions
    live: dict[int, int] = {}
    for loop in loops(function.body):
        first, stop = loop.start + 1, loop.end
        straight = loop.single_block and code[stop - 1].opcode == BR_IF
        if not straight or code[loop.start].immediates != (_EMPTY,):
            continue
        try:
            graph = lift(Nodes(), function.data, code[first:stop], function.types)
        except NotLiftable as reason:
            yield str(reason)
            continue
        if not any(graph.nodes[n].type == V128 for n in graph.finals.values()):
            continue
        live = live or live_at(function.body)
        graph = _without_dead(graph, live[loop.end])
        if reach(of_roots(graph.nodes, graph.finals, graph.condition)) != reach(graph):
            yield "what it loads and never uses lies further than the rest, and may trap"
            continue
        yield Loop(first, stop, graph)


def _without_dead(graph: LoopGraph, live: int) -> LoopGraph:
    """Without the finals of locals that neither the next iteration nor what follows reads."""
    read = {graph.nodes[n].text for n in graph.order}
    kept = {
        local: n
        for local, n in graph.finals.items()
        if live >> local & 1 or given(local, V128).text in read
    }
    needed = set(reachable(graph.nodes, (*kept.values(), graph.condition)))
    return replace(graph, finals=kept, order=tuple(n for n in graph.order if n in needed))
