"""Order and number of a file's nodes, counted before anything is laid out."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import onnx

from nnjit_studio.errors import ModelError

MAX_NODES = 50_000


def check_count(model: onnx.ModelProto) -> None:
    """Refuse a model with too many nodes, those of its functions counted at each call.

    Raises
    ------
    ModelError
        Also for functions that call themselves.
    """
    bodies = {(f.domain, f.name): list(_nodes(f.node)) for f in model.functions}
    calls = {key: [c for n in nodes if (c := (n.domain, n.op_type)) in bodies]
             for key, nodes in bodies.items()}  # fmt: skip
    try:
        callees_first = list(TopologicalSorter(calls).static_order())
    except CycleError as e:
        raise ModelError("A function of the model calls itself.", "Export it again.") from e
    sizes: dict[tuple[str, str], int] = {}
    for key in callees_first:
        sizes[key] = sum(sizes.get((n.domain, n.op_type), 1) for n in bodies[key])
    if sum(sizes.get((n.domain, n.op_type), 1) for n in _nodes(model.graph.node)) > MAX_NODES:
        laid_out = ", its functions laid out" if bodies else ""
        raise ModelError(f"The model has more than {MAX_NODES} nodes{laid_out}.", "Split it.")


def put_in_order(graph: onnx.GraphProto) -> bool:
    """Move nodes behind those that they read; whether any had to be moved.

    ONNX Runtime takes them in any order, the ONNX checker does not. A cycle is left for the
    checker to name.
    """
    nodes = list(graph.node)
    maker = {name: at for at, node in enumerate(nodes) for name in node.output if name}
    reads = [[maker[name] for name in node_reads(node) if name in maker] for node in nodes]
    if all(source < at for at, sources in enumerate(reads) for source in sources):
        return False
    order = _sources_first(reads)
    if order is None:
        return False
    held = [nodes[at].SerializeToString() for at in order]
    del graph.node[:]
    graph.node.extend(map(onnx.NodeProto.FromString, held))
    return True


def name_graphs(graph: onnx.GraphProto) -> bool:
    """Name graphs that have no name, which the checker alone wants; whether any was without."""
    missing = not graph.name
    graph.name = graph.name or "graph"
    inner = [name_graphs(g) for node in graph.node for g in subgraphs(node)]
    return missing or any(inner)


def _sources_first(reads: list[list[int]]) -> list[int] | None:
    """The places in an order near the given one; None where there is a cycle."""
    order: list[int] = []
    waiting, done = set[int](), set[int]()
    for first in range(len(reads)):
        stack = [first]
        while stack:
            at = stack[-1]
            missing = [source for source in reads[at] if source not in done]
            if at in done or not missing:
                stack.pop()
                if at not in done:
                    done.add(at)
                    order.append(at)
            elif at in waiting:
                return None
            else:
                waiting.add(at)
                stack.extend(reversed(missing))
    return order


def node_reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node needs, those of its subgraphs included."""
    yield from node.input
    for inner in subgraphs(node):
        made = {name for n in inner.node for name in n.output} | {i.name for i in inner.input}
        outputs = (o.name for o in inner.output)
        for name in (*(r for n in inner.node for r in node_reads(n)), *outputs):
            if name not in made:
                yield name


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _nodes(nodes: Iterator[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of their subgraphs."""
    for node in nodes:
        yield node
        for inner in subgraphs(node):
            yield from _nodes(inner.node)
