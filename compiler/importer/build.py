"""From fused calls to Graph, Workloads, Plan and the weights file."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from nnjit_studio.compiler.importer.memory import Lifetime, aligned, plan_offsets
from nnjit_studio.compiler.importer.program.fuse_pointwise import fuse_pointwise
from nnjit_studio.compiler.importer.program.half_weights import imported, keep_halves
from nnjit_studio.compiler.importer.program.merge_products import merge_products
from nnjit_studio.compiler.importer.program.split_columns import split_columns
from nnjit_studio.compiler.importer.program.tie_weights import tie_weights
from nnjit_studio.compiler.importer.program.winograd import use_winograd
from nnjit_studio.compiler.importer.weights import Weights
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.tensor_ir import Load, Program
from nnjit_studio.compiler.onnx_file.check import content_key
from nnjit_studio.compiler.recognize.softmax import overwritten
from nnjit_studio.compiler.recognize.subject import PackedWeight, packed_weight
from nnjit_studio.compiler.recognize.winograd import INPUT, PRODUCT
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import prepared, subject_of
from nnjit_studio.compiler.tvm_adapter import (
    APPEND_COLUMNS,
    ImportedCalls,
    ProgramCall,
    Value,
    is_append,
)
from nnjit_studio.model import (
    DTYPE_BYTES,
    Append,
    Graph,
    Node,
    Plan,
    PlanBuffer,
    PlanPort,
    PlanStep,
    TensorSpec,
    Workload,
)
from nnjit_studio.model.plan import HALF_BYTES, WORD_BYTES

PART_OF_WINOGRAD = {INPUT: " (tiles)", PRODUCT: " (winograd)"}
"""Of a step's name; the last of the three steps has the convolution's own."""
SMALLEST_SHARED = 1 << 20
"""Bytes of an input that an output may lie over: a step in place cannot be timed by repeats."""
WIDEST_PANEL = 16
"""Columns; the capacity of a packable weight has room for this padding."""


@dataclass(frozen=True)
class BuiltModel:
    """What one import yields; ``programs`` by workload key."""

    graph: Graph
    workloads: tuple[Workload, ...]
    plan: Plan
    programs: Mapping[str, Program]
    packable: tuple[str, ...]


def is_view(program: Program) -> bool:
    """Whether the program only copies its input in place order: a reshape."""
    if len(program.stages) != 1 or program.stages[0].init:
        return False
    (stage,) = program.stages
    if len(stage.body) != 1 or len(program.buffers) != 2:
        return False
    (store,) = stage.body
    source, target = program.buffers
    return (
        isinstance(store.value, Load)
        and store.value.index == store.index
        and source.dtype == target.dtype
        and math.prod(source.shape) == math.prod(target.shape)
        and math.prod(a.extent for a in stage.axes) == math.prod(target.shape)
    )


def build(
    name: str,
    calls: ImportedCalls,
    input_names: Sequence[str],
    output_names: Sequence[str],
    weight_names: Mapping[tuple[Any, ...], str],
    weight_readers: Mapping[str, tuple[str, ...]],
    weights: Path | Weights,
    states: Collection[str] = (),
    halves: str = "",
    winograd: bool = True,
) -> BuiltModel:
    """Assemble everything and write the weights file.

    Parameters
    ----------
    input_names, output_names
        The ONNX names, in the order of the imported function.
    weight_names, weight_readers
        Initialisers by content, and the ONNX nodes that read each.
    weights
        The file, or the places in it where other plans use it too; those are
        then the caller's to write.
    states
        Inputs that are kept from run to run and written by appends alone;
        neither they nor outputs that are such a state are ports of the plan.
    halves
        ``exact`` stores weights that are halves by value as such, ``rounded`` makes halves of
        others too; empty for neither.
    winograd
        Whether convolutions may become :mod:`.winograd`'s three steps.
    """
    store = Weights(weights) if isinstance(weights, Path) else weights
    builder = _Builder(
        name,
        calls,
        input_names,
        output_names,
        weight_names,
        weight_readers,
        store,
        states,
        halves,
        winograd,
    )
    built = builder.run()
    if isinstance(weights, Path):
        store.finish_plan()
    return built


class _Builder:
    def __init__(
        self,
        name: str,
        calls: ImportedCalls,
        input_names: Sequence[str],
        output_names: Sequence[str],
        weight_names: Mapping[tuple[Any, ...], str],
        weight_readers: Mapping[str, tuple[str, ...]],
        weights: Weights,
        states: Collection[str],
        halves: str,
        winograd: bool,
    ) -> None:
        self.name = name
        self.calls = tie_weights(split_columns(merge_products(calls)))
        self.output_names = output_names
        self.weight_names = dict(weight_names)
        self.weight_readers = weight_readers
        self.store = weights
        self.states = states
        self.halves = halves
        self.winograd = winograd
        self.state_bytes = 0
        self.root: dict[str, str] = {}  # a view's name -> the name of what it views
        self.label = dict(zip((v.name for v in calls.inputs), input_names, strict=True))
        self.buffers: list[PlanBuffer | Lifetime] = []
        self.arena: dict[str, int] = {}
        self.over: dict[int, int] = {}  # a buffer -> the one whose place it takes
        self.weights: dict[tuple[str, str], int] = {}
        self.weight_label: dict[str, str] = {}
        self.node_names: set[str] = set()

    def run(self) -> BuiltModel:
        kept = tuple(c for c in self.calls.calls if not self._take_view(c))
        fused = fuse_pointwise(replace(self.calls, calls=kept), self.root)
        if self.winograd:
            fused = use_winograd(fused)
        calls = [replace(c, program=prepared(c.program)) for c in fused.calls]
        if self.halves:
            calls = list(keep_halves(calls, self.halves == "rounded", self.weight_names))
        for value, onnx_name in zip(self.calls.outputs, self.output_names, strict=True):
            self.label.setdefault(self._root(value.name), onnx_name)
        for call in self.calls.calls:
            for value, onnx_name in zip(call.outputs, call.origin.tensors, strict=False):
                if onnx_name:
                    self.label.setdefault(self._root(value.name), onnx_name)
        last = len(calls)
        ends = self._last_uses(calls, last)

        for value in self.calls.inputs:
            if self.label[value.name] in self.states:
                self._place_state(value)
            else:
                # Inputs outlive the run: repeated runs read them again.
                self._place(value, 0, last)
        programs: dict[str, Program] = {}
        workloads: dict[str, Workload] = {}
        packable: list[str] = []
        steps: list[PlanStep] = []
        nodes: list[Node] = []
        for position, call in enumerate(calls):
            if is_append(call.program):
                steps.append(self._append(call))
                continue
            subject = subject_of(call.program)
            workload = workload_for(call.program, subject)
            weight = packed_weight(subject)
            key = workload.key
            if key in workloads:
                workloads[key] = replace(workloads[key], uses=workloads[key].uses + 1)
            else:
                workloads[key], programs[key] = workload, call.program
                if weight is not None:
                    packable.append(key)
            packed = weight.buffer if weight else ""
            args = [
                self._argument(value, key, weight if buffer.name == packed else None)
                for buffer, value in zip(call.program.buffers, call.inputs, strict=False)
            ]
            over = self._overwritten(call, position)
            args += [self._place(v, position, ends[self._root(v.name)], over) for v in call.outputs]
            shared = in_place(call.program)
            position_of = {b.name: i for i, b in enumerate(call.program.buffers)}
            for buffer in call.program.buffers[len(args) :]:
                if buffer.name in shared:
                    args.append(args[position_of[shared[buffer.name]]])
                    continue
                nbytes = math.prod(buffer.shape) * DTYPE_BYTES[buffer.dtype]
                self.buffers.append(Lifetime(nbytes, position, position))
                args.append(len(self.buffers) - 1)
            node = self._node(call, workload, position)
            nodes.append(node)
            steps.append(PlanStep("call", key, tuple(args), node.name))
        steps.append(PlanStep("return"))

        outputs = tuple(
            PlanPort(TensorSpec(n, v.shape, v.dtype), self._argument(v, "", None))
            for n, v in zip(self.output_names, self.calls.outputs, strict=True)
            if not self._is_state(v)
        )
        inputs = tuple(
            PlanPort(
                TensorSpec(self.label[v.name], v.shape, v.dtype), self.arena[self._root(v.name)]
            )
            for v in self.calls.inputs
            if not self._is_state(v)
        )
        buffers, arena_bytes = self._planned()
        plan = Plan(
            self.name,
            inputs,
            outputs,
            buffers,
            tuple(steps),
            self.store.nbytes,
            arena_bytes,
            self.state_bytes,
        )
        graph = self._graph(nodes, calls, inputs, outputs)
        return BuiltModel(graph, tuple(workloads.values()), plan, programs, tuple(packable))

    def _take_view(self, call: ProgramCall) -> bool:
        if is_append(call.program):
            # In place: what comes out is the state itself. It stays an instruction.
            self.root[call.outputs[0].name] = self._root(call.inputs[0].name)
            return False
        if not is_view(call.program) or call.inputs[0].constant is not None:
            return False
        self.root[call.outputs[0].name] = self._root(call.inputs[0].name)
        return True

    def _root(self, name: str) -> str:
        return self.root.get(name, name)

    def _last_uses(self, calls: Sequence[ProgramCall], last: int) -> dict[str, int]:
        ends: dict[str, int] = {}
        for position, call in enumerate(calls):
            for value in (*call.inputs, *call.outputs):
                ends[self._root(value.name)] = position
        for value in self.calls.outputs:
            ends[self._root(value.name)] = last
        return ends

    def _place_state(self, value: Value) -> None:
        nbytes = math.prod(value.shape) * DTYPE_BYTES[value.dtype]
        self.buffers.append(PlanBuffer("state", self.state_bytes, nbytes))
        self.arena[value.name] = len(self.buffers) - 1
        self.state_bytes += aligned(nbytes)

    def _is_state(self, value: Value) -> bool:
        if value.constant is not None:
            return False
        return isinstance(self.buffers[self.arena[self._root(value.name)]], PlanBuffer)

    def _append(self, call: ProgramCall) -> PlanStep:
        state, rows, *slot = call.inputs
        columns = call.program.name == APPEND_COLUMNS
        *heads, count, width = rows.shape
        capacity = state.shape[-1 if columns else -2]
        nbytes = DTYPE_BYTES[state.dtype]
        append = Append(math.prod(heads), count, width, capacity, nbytes, columns)
        args = tuple(self._argument(v, "", None) for v in (rows, state, *slot))
        return PlanStep("append", "", args, self._tensor_name(state), append)

    def _place(self, value: Value, first: int, end: int, over: int | None = None) -> int:
        root = self._root(value.name)
        if root not in self.arena:
            nbytes = math.prod(value.shape) * DTYPE_BYTES[value.dtype]
            self.buffers.append(Lifetime(nbytes, first, end))
            self.arena[root] = len(self.buffers) - 1
            if over is not None:
                self.over[self.arena[root]] = self.over.get(over, over)
        return self.arena[root]

    def _overwritten(self, call: ProgramCall, position: int) -> int | None:
        """The buffer of a large input that the step's output may lie over, since it ends there."""
        name = overwritten(call.program)
        given = zip(call.program.buffers, call.inputs, strict=False)
        value = next((value for buffer, value in given if buffer.name == name), None)
        if value is None or value.constant is not None:
            return None
        root = self._root(value.name)
        buffer = self.buffers[self.arena[root]]
        alone = [self._root(v.name) for v in call.inputs].count(root) == 1
        ends = isinstance(buffer, Lifetime) and buffer.last == position
        return self.arena[root] if alone and ends and buffer.nbytes >= SMALLEST_SHARED else None

    def _argument(self, value: Value, key: str, pack: PackedWeight | None) -> int:
        if value.constant is None:
            return self.arena[self._root(value.name)]
        # A weight that a kernel may want in panels is not shared with other kernels.
        use = (value.name, key if pack else "")
        if use not in self.weights:
            data = np.ascontiguousarray(value.constant)
            nbytes, unit = data.nbytes, WORD_BYTES
            if pack is not None:
                columns = -(-pack.n // WIDEST_PANEL) * WIDEST_PANEL
                unit = HALF_BYTES if value.dtype == "f16" else WORD_BYTES
                nbytes = pack.k * columns * unit
            sizes = (pack.k, pack.n) if pack else None
            offset = self.store.place(data, nbytes, sizes)
            self.buffers.append(PlanBuffer("weight", offset, nbytes, sizes, unit))
            self.weights[use] = len(self.buffers) - 1
            known = self.weight_names.get(content_key(imported(value)), "")
            self.weight_label[value.name] = known or f"constant_{value.name}"
        return self.weights[use]

    def _planned(self) -> tuple[tuple[PlanBuffer, ...], int]:
        lives = {i: b for i, b in enumerate(self.buffers) if isinstance(b, Lifetime)}
        for i, base in self.over.items():
            lives[base] = replace(lives[base], last=max(lives[base].last, lives.pop(i).last))
        offsets, total = plan_offsets(list(lives.values()))
        at = dict(zip(lives, offsets, strict=True))
        planned = tuple(
            b
            if isinstance(b, PlanBuffer)
            else PlanBuffer("arena", at[self.over.get(i, i)], b.nbytes)
            for i, b in enumerate(self.buffers)
        )
        return planned, total

    def _tensor_name(self, value: Value) -> str:
        if value.constant is not None:
            return self.weight_label[value.name]
        root = self._root(value.name)
        return self.label.get(root, root)

    def _node(self, call: ProgramCall, workload: Workload, position: int) -> Node:
        sources: list[str] = []
        for value in call.inputs:
            if value.constant is not None:
                readers = self.weight_readers.get(self.weight_label[value.name], ())
                # A weight that many nodes share tells nothing about this one.
                if len(readers) == 1:
                    sources += readers
        known = (*sources, *call.origin.nodes)
        name = known[0] if known else f"{workload.kind}_{position}"
        name += PART_OF_WINOGRAD.get(call.program.name, "")
        if name in self.node_names:
            name = f"{name} ({position})"
        self.node_names.add(name)
        outputs = tuple(self._tensor_name(v) for v in call.outputs)
        return Node(
            name=name,
            op="+".join((workload.kind, *workload.epilogue)),
            inputs=tuple(self._tensor_name(v) for v in call.inputs),
            outputs=outputs,
            workload=workload.key,
            source=call.origin.nodes or tuple(dict.fromkeys(sources)),
            flops=workload.flops,
        )

    def _graph(
        self,
        nodes: Sequence[Node],
        calls: Sequence[ProgramCall],
        inputs: Sequence[PlanPort],
        outputs: Sequence[PlanPort],
    ) -> Graph:
        def specs() -> Iterator[TensorSpec]:
            for call in calls:
                for value in (*call.inputs, *call.outputs):
                    yield TensorSpec(self._tensor_name(value), value.shape, value.dtype)
            for port in (*inputs, *outputs):
                yield port.spec

        return Graph(
            self.name,
            tuple(p.spec.name for p in inputs),
            tuple(p.spec.name for p in outputs),
            tuple(nodes),
            {spec.name: spec for spec in specs()},
        )
