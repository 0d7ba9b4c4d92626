"""Neighbouring small elementwise calls that read one value become one.

A token of a language model turns its queries, turns its keys and takes its values out of one
product. On a GPU each such step costs a dispatch, several times what its few elements do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from nnjit_studio.compiler.importer.program.fuse_pointwise import is_pointwise, renamed
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Program
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Origin, ProgramCall, Value
from nnjit_studio.compiler.wgsl.core.groups import MAX_BUFFERS

MOST_ELEMENTS = 1 << 16
"""Of a result; larger ones are worth a kernel of their own."""
MOST_OF_A_WORKGROUP = 1 << 11
"""Elements of all results, where their extents differ: on a GPU a workgroup makes them."""
_FLOATS = ("f32", "f16")


def merge_siblings(calls: ImportedCalls, root: Mapping[str, str]) -> ImportedCalls:
    """The same model with fewer calls; a merged one has the results of all its calls.

    Parameters
    ----------
    root
        What each view is a view of, by name.
    """
    return replace(calls, calls=tuple(_joined(run) for run in _runs(calls.calls, root)))


def _runs(calls: Sequence[ProgramCall], root: Mapping[str, str]) -> Iterator[list[ProgramCall]]:
    """All calls in order, those that become one together."""
    run: list[ProgramCall] = []
    for call in calls:
        if run and not _joins(run, call, root):
            yield run
            run = []
        run.append(call)
    if run:
        yield run


def _joins(run: Sequence[ProgramCall], call: ProgramCall, root: Mapping[str, str]) -> bool:
    first = run[0]
    if not (_is_small(first) and _is_small(call)):
        return False
    if _extents(first) != _extents(call) and not _fits_workgroups([*run, call]):
        return False
    given = {v.name for c in run for v in c.inputs}
    made = {root.get(v.name, v.name) for c in run for v in c.outputs}
    read = {v.name: v for v in call.inputs}
    common = any(v.constant is None for name, v in read.items() if name in given)
    apart = made.isdisjoint(root.get(name, name) for name in read)
    buffers = len(given | read.keys()) + len(made) + len(call.outputs)
    return common and apart and buffers <= MAX_BUFFERS


def _is_small(call: ProgramCall) -> bool:
    roles = {b.role for b in call.program.buffers}
    small = all(math.prod(v.shape) <= MOST_ELEMENTS and v.dtype in _FLOATS for v in call.outputs)
    plain = roles == {"input", "output"} and bool(call.program.stages)
    return small and plain and is_pointwise(call.program)


def _fits_workgroups(run: Sequence[ProgramCall]) -> bool:
    """Whether calls of several extents leave a workgroup for each point of a common leading axis
    little to do."""
    leading = {tuple(extents[:1]) for call in run for extents in _extents(call)}
    (rows,) = leading.pop() or (1,) if len(leading) == 1 else (1,)
    results = sum(math.prod(v.shape) for call in run for v in call.outputs)
    return results <= rows * MOST_OF_A_WORKGROUP


def _extents(call: ProgramCall) -> list[list[int]]:
    return [[a.extent for a in s.axes if a.extent > 1] for s in call.program.stages]


def _joined(run: Sequence[ProgramCall]) -> ProgramCall:
    if len(run) == 1:
        return run[0]
    name = "_".join(dict.fromkeys(c.program.name for c in run))
    return in_one(run, name, {v.name for c in run for v in c.outputs})


def in_one(run: Sequence[ProgramCall], name: str, read: Collection[str]) -> ProgramCall:
    """Calls as one that does the same in their order.

    Parameters
    ----------
    read
        Values that others read: its results. What else the calls make is a workspace.
    """
    made = {value.name for call in run for value in call.outputs}
    ports: dict[str, tuple[Buffer, Value]] = {}
    workspaces: list[Buffer] = []
    counts = {"in": 0, "out": 0, "ws": 0}
    stages = []

    def renewed(buffer: Buffer, prefix: str, role: str) -> Buffer:
        counts[prefix] += 1
        return replace(buffer, name=f"{prefix}{counts[prefix] - 1}", role=role)

    def placed(buffer: Buffer, value: Value) -> Buffer:
        if value.name not in ports:
            if value.name not in made:
                new = renewed(buffer, "in", "input")
            elif value.name in read:
                new = renewed(buffer, "out", "output")
            else:
                new = renewed(buffer, "ws", "workspace")
                workspaces.append(new)
            ports[value.name] = new, value
        return ports[value.name][0]

    for call in run:
        values = (*call.inputs, *call.outputs)
        names = {
            b.name: placed(b, v).name for b, v in zip(call.program.buffers, values, strict=False)
        }
        for buffer in call.program.buffers[len(values) :]:
            workspaces.append(renewed(buffer, "ws", buffer.role))
            names[buffer.name] = workspaces[-1].name
        stages += [renamed(stage, names) for stage in call.program.stages]
    given, results = ([p for p in ports.values() if p[0].role == r] for r in ("input", "output"))
    buffers = (*(b for b, _ in (*given, *results)), *workspaces)
    nodes = tuple(dict.fromkeys(node for c in run for node in c.origin.nodes))
    told = {v.name: t for c in run for v, t in zip(c.outputs, c.origin.tensors, strict=False)}
    tensors = tuple(told.get(value.name, "") for _, value in results) if told else ()
    return ProgramCall(
        Program(name, buffers, tuple(stages)),
        tuple(value for _, value in given),
        tuple(value for _, value in results),
        Origin(nodes, tensors),
    )
