"""Graph, workloads, plan and weights file from fused calls."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from nnjit_studio.compiler.importer.buffers import Buffers, Weights
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.loop_steps import CompiledLoop, Edge, in_line, loop_step
from nnjit_studio.compiler.importer.names import Names, OnnxNames
from nnjit_studio.compiler.importer.passes import CALL_PASSES, Import
from nnjit_studio.compiler.ir.in_place import in_place
from nnjit_studio.compiler.ir.tensor_ir import VIRTUAL, Program
from nnjit_studio.compiler.recognize.subject import packed_weight
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import subject_of
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
    FoundAxis,
    Graph,
    Node,
    Plan,
    PlanPort,
    PlanStep,
    TensorSpec,
    Workload,
)


def build(
    name: str,
    calls: ImportedCalls,
    onnx: OnnxNames,
    weights: Path | Weights,
    imports: Import,
    states: Collection[str] = (),
    loops: Mapping[str, CompiledLoop] = MappingProxyType({}),
) -> BuiltModel:
    """Run the passes on calls, assemble everything and write the weights file.

    Parameters
    ----------
    weights
        The file, or the places in it where other plans use it too; those are
        then the caller's to write.
    states
        Inputs that are kept from run to run and written by appends alone;
        neither they nor outputs that are such a state are ports of the plan.
    loops
        By the names of their programs.
    """
    store = Weights(weights) if isinstance(weights, Path) else weights
    calls = CALL_PASSES.run(calls, imports)
    line = in_line(calls.calls, loops, imports.views)
    assembly = _Assembly(calls, line, Names(onnx, calls, imports), store, imports.any_size)
    for value, label in zip(calls.inputs, onnx.inputs, strict=True):
        assembly.place_input(value, label in states)
    for position, call in enumerate(line):
        if isinstance(call, Edge):
            assembly.add_edge(call, position)
        else:
            assembly.add(call, position)
    built = assembly.finish(name, onnx, imports)
    built = replace(built, choices=tuple(imports.choices))
    if isinstance(weights, Path):
        store.finish_plan()
    return built


class _Assembly:
    """Steps, nodes and workloads, call by call."""

    def __init__(
        self,
        calls: ImportedCalls,
        line: Sequence[ProgramCall | Edge],
        names: Names,
        store: Weights,
        apart: bool,
    ) -> None:
        self.calls = calls
        self.line = line
        self.names = names
        self.store = store
        self.apart = apart
        self.buffers = Buffers(store, names.root)
        self.steps: list[PlanStep] = []
        self.nodes: list[Node] = []
        self.programs: dict[str, Program] = {}
        self.workloads: dict[str, Workload] = {}
        self.packable: list[str] = []
        self.ends: dict[str, int] = {}  # the last step that has a value
        for position, call in enumerate(line):
            for value in (*call.inputs, *call.outputs):
                self.ends[names.root(value.name)] = position
        for value in calls.outputs:
            self.ends[names.root(value.name)] = len(line)

    def place_input(self, value: Value, state: bool) -> None:
        if state:
            self.buffers.place_state(value)
        else:
            # Inputs outlive the run: repeated runs read them again.
            self.buffers.place(value, 0, len(self.line))

    def add(self, call: ProgramCall, position: int) -> None:
        if is_append(call.program):
            self.steps.append(self._append(call))
            return
        subject = subject_of(call.program)
        workload = workload_for(call.program, subject)
        weight = packed_weight(subject)
        key = workload.key
        if key in self.workloads:
            known = self.workloads[key]
            self.workloads[key] = replace(known, uses=known.uses + 1)
        else:
            self.workloads[key], self.programs[key] = workload, call.program
            if weight is not None:
                self.packable.append(key)
        packed = weight.buffer if weight else ""
        args = [
            self.buffers.argument(value, key, weight if buffer.name == packed else None)
            for buffer, value in zip(call.program.buffers, call.inputs, strict=False)
        ]
        over = None if self.apart else self.buffers.overwritten(call, position)
        for value in call.outputs:
            end = self.ends[self.names.root(value.name)]
            args.append(self.buffers.place(value, position, end, over))
        self._add_workspaces(call.program, args, position)
        node = self.names.node(call, workload, position)
        self.nodes.append(node)
        self.steps.append(PlanStep("call", key, tuple(args), node.name))

    def add_edge(self, edge: Edge, position: int) -> None:
        """The step at which a loop begins, or the one at which it ends."""
        if not edge.begins:
            begin = next(s for s in reversed(self.steps) if s.op == "loop")
            self.steps.append(PlanStep("end", "", begin.args, begin.node))
            return
        results = [
            self.buffers.place(value, position, self.ends[self.names.root(value.name)])
            for value in edge.outputs
        ]
        nodes = edge.call.origin.nodes
        name = nodes[0] if nodes else edge.call.program.name
        self.steps.append(loop_step(edge, self.buffers, position, results, name))

    def _add_workspaces(self, program: Program, args: list[int], position: int) -> None:
        shared = in_place(program)
        place_of = {b.name: i for i, b in enumerate(program.buffers)}
        for buffer in program.buffers[len(args) :]:
            if buffer.role == VIRTUAL:
                args.append(args[-1])  # nobody follows it
            elif buffer.name in shared:
                args.append(args[place_of[shared[buffer.name]]])
            else:
                shape, dtype = buffer.shape, buffer.dtype
                args.append(self.buffers.workspace(shape, dtype, position, position))

    def _append(self, call: ProgramCall) -> PlanStep:
        state, rows, *slot = call.inputs
        columns = call.program.name == APPEND_COLUMNS
        *heads, count, width = rows.shape
        capacity = state.shape[-1 if columns else -2]
        nbytes = DTYPE_BYTES[state.dtype]
        append = Append(math.prod(heads), count, width, capacity, nbytes, columns)
        args = tuple(map(self.buffers.argument, (rows, state, *slot)))
        return PlanStep("append", "", args, self.names.tensor(state), append)

    def finish(self, name: str, onnx: OnnxNames, imports: Import) -> BuiltModel:
        fixed = {input: imports.values[input] for input in imports.relied}
        self.steps.append(PlanStep("return"))
        outputs = _found(self._ports(self.calls.outputs, onnx.outputs), imports.counted.found)
        inputs = tuple(
            replace(port, value=fixed.get(port.spec.name))
            for port in self._ports(self.calls.inputs, onnx.inputs)
        )
        buffers, arena_bytes = self.buffers.planned()
        plan = Plan(
            name,
            inputs,
            outputs,
            buffers,
            tuple(self.steps),
            self.store.nbytes,
            arena_bytes,
            self.buffers.state_bytes,
        )
        graph = Graph(
            name,
            tuple(p.spec.name for p in inputs),
            tuple(p.spec.name for p in outputs),
            tuple(self.nodes),
            {spec.name: spec for spec in self._specs((*inputs, *outputs))},
            tuple(imports.done),
        )
        workloads = tuple(self.workloads.values())
        return BuiltModel(graph, workloads, plan, self.programs, tuple(self.packable))

    def _ports(self, values: Sequence[Value], labels: Sequence[str]) -> tuple[PlanPort, ...]:
        return tuple(
            PlanPort(TensorSpec(label, v.shape, v.dtype), self.buffers.argument(v))
            for label, v in zip(labels, values, strict=True)
            if not self.buffers.is_state(v)
        )

    def _specs(self, ports: Sequence[PlanPort]) -> Iterator[TensorSpec]:
        for call in self.line:
            for value in (*call.inputs, *call.outputs):
                yield TensorSpec(self.names.tensor(value), value.shape, value.dtype)
        for port in ports:
            yield port.spec


def _found(ports: Sequence[PlanPort], found: Mapping[str, tuple[int, str]]) -> tuple[PlanPort, ...]:
    """The model's outputs, those that are as long as their data says with the buffer of that."""
    by_name = {port.spec.name: port for port in ports}
    axes = {n: FoundAxis(axis, by_name[length].buffer) for n, (axis, length) in found.items()}
    lengths = {length for _, length in found.values()}
    return tuple(
        replace(port, found=axes.get(name)) for name, port in by_name.items() if name not in lengths
    )
