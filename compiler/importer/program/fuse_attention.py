"""Attention as one step, for a GPU: QK^T, softmax and PV become one call of one program.

Made from a built model, so the plan that Wasm runs is untouched. Three kernels write the
scores to memory and read them three times; one keeps them on chip, and starts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.program.fuse_pointwise import joined
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Program
from nnjit_studio.compiler.recognize.attention import Attention, recognize_attention
from nnjit_studio.compiler.recognize.softmax import recognize_softmax
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.model import Graph, Node, PlanStep, Workload
from nnjit_studio.space.webgpu.attention import ATTENTION

WIDE, MANY_KEYS = 96, 256
"""Wider heads over more keys stay three steps: a tile's results crowd the registers, and products
of their own are expected to take 0.7 to 0.85 of the time (the cost models of space/, an H200's
constants; not measured). One query has no such tile."""
_GONE = "gone"
"""The steps that the joined one replaces, until they are taken out."""


def fuse_attention(built: BuiltModel) -> BuiltModel:
    """The same model with attention in one step each; ``built`` itself where there is none.

    Buffers and weights stay those of ``built``. Results keep their names; the tensors between
    the three steps are gone.
    """
    steps = list(built.plan.steps)
    calls = [i for i, step in enumerate(steps) if step.op == "call"]
    nodes = dict(zip(calls, built.graph.nodes, strict=True))
    programs = dict(built.programs)
    found: dict[str, Workload] = {}
    for place, node in list(nodes.items()):
        if recognize_softmax(programs[node.workload]) is None:
            continue
        around = _around(place, nodes, built.graph)
        if around is None:
            continue
        first, last = around
        if not _undisturbed(steps, first, place, last):
            continue
        three = [(nodes[i], steps[i], programs[nodes[i].workload]) for i in (first, place, last)]
        program, names, args = _fused(*three)
        attention = recognize_attention(program)
        if attention is None or not pays(attention):
            continue
        workload = workload_for(program, attention)
        programs.setdefault(workload.key, program)
        found.setdefault(workload.key, workload)
        steps[last] = replace(steps[last], workload=workload.key, args=args)
        nodes[last] = _node(workload, names, *(node for node, _, _ in three))
        steps[first] = steps[place] = PlanStep(_GONE)
        del nodes[first], nodes[place]
    if not found:
        return built
    return _rebuilt(built, steps, nodes, programs, found)


def pays(a: Attention) -> bool:
    """Whether one kernel is expected to be faster than three."""
    return a.queries == 1 or a.depth <= WIDE or a.keys <= MANY_KEYS


def _around(place: int, nodes: Mapping[int, Node], graph: Graph) -> tuple[int, int] | None:
    """The steps that make a softmax's input and read its output, where nothing else does."""
    node = nodes[place]
    if len(node.outputs) != 1 or not node.inputs:
        return None
    scores, weights = node.inputs[0], node.outputs[0]
    if {scores, weights} & {*graph.outputs, *graph.inputs}:
        return None
    makers = [i for i, n in nodes.items() if scores in n.outputs]
    others = [i for i, n in nodes.items() if scores in n.inputs and i != place]
    readers = [i for i, n in nodes.items() if weights in n.inputs]
    if len(makers) != 1 or len(readers) != 1 or others:
        return None
    return (makers[0], readers[0]) if makers[0] < place < readers[0] else None


def _undisturbed(steps: list[PlanStep], first: int, place: int, last: int) -> bool:
    """Whether the first step may run as late as the last: nothing between writes what it reads."""
    read = set(steps[first].args)
    between = (s for i, s in enumerate(steps[first + 1 : last], first + 1) if i != place)
    return not any(read & set(step.args) for step in between if step.op == "append")


Part = tuple[Node, PlanStep, Program]


def _fused(scores: Part, softmax: Part, values: Part) -> tuple[Program, list[str], tuple[int, ...]]:
    """The three programs as one, the names of its inputs, and its arguments in the plan."""
    node, step, program = scores
    names, args, result = list(node.inputs), list(step.args), node.outputs[0]
    for node, step, later in (softmax, values):
        given = list(zip(later.buffers, node.inputs, strict=False))
        between = {b.name for b, name in given if name == result}
        names += [name for name in node.inputs if name != result]
        args = _arguments(program, args, later, step, between)
        program, result = joined(program, later, between), node.outputs[0]
    return replace(program, name=ATTENTION), names, tuple(args)


def _arguments(
    first: Program, args: list[int], last: Program, step: PlanStep, between: set[str]
) -> list[int]:
    """Of both programs joined, in the order that :func:`joined` has."""
    mine = list(zip(first.buffers, args, strict=True))
    new = [(b, a) for b, a in zip(last.buffers, step.args, strict=True) if b.name not in between]
    result = [a for b, a in mine if b.role == "output"]

    def of(pairs: list[tuple[Buffer, int]], role: str) -> list[int]:
        return [a for b, a in pairs if b.role == role]

    inputs = of(mine, "input") + of(new, "input")
    return inputs + of(new, "output") + of(mine, "workspace") + result + of(new, "workspace")


def _node(workload: Workload, names: list[str], scores: Node, softmax: Node, values: Node) -> Node:
    source = (*scores.source, *softmax.source, *values.source)
    return replace(
        values,
        op="+".join((workload.kind, *workload.epilogue)),
        inputs=tuple(names),
        workload=workload.key,
        source=tuple(dict.fromkeys(source)),
        flops=workload.flops,
    )


def _rebuilt(
    built: BuiltModel,
    steps: list[PlanStep],
    nodes: Mapping[int, Node],
    programs: Mapping[str, Program],
    found: Mapping[str, Workload],
) -> BuiltModel:
    kept = tuple(step for step in steps if step.op != _GONE)
    uses = Counter(step.workload for step in kept if step.op == "call")
    known = {w.key: w for w in (*built.workloads, *found.values())}
    order = dict.fromkeys(step.workload for step in kept if step.op == "call")
    left = tuple(nodes[i] for i in sorted(nodes))
    graph = built.graph
    named = {*graph.inputs, *graph.outputs}
    named |= {name for node in left for name in (*node.inputs, *node.outputs)}
    return BuiltModel(
        replace(graph, nodes=left, tensors={n: t for n, t in graph.tensors.items() if n in named}),
        tuple(replace(known[key], uses=uses[key]) for key in order),
        replace(built.plan, steps=kept),
        {key: programs[key] for key in order},
        tuple(key for key in built.packable if key in uses),
    )
