"""A model of one kernel, for benchmarks: plan, graph and seeded weights of one program."""

from __future__ import annotations

from pathlib import Path

from nnjit_studio.compiler.importer.build import build
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.names import OnnxNames
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Program
from nnjit_studio.compiler.spelling import seeded_input
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value


def model_of(spec: str, program: Program, weights_file: Path) -> BuiltModel:
    """Plan, graph and weights file; inputs and output go by the program's buffer names."""

    def value(buffer: Buffer) -> Value:
        data = seeded_input(spec, buffer.name, buffer.shape) if buffer.constant else None
        return Value(buffer.name, buffer.shape, buffer.dtype, data)

    values = {b.name: value(b) for b in program.buffers}
    inputs = tuple(values[b.name] for b in program.buffers if b.role == "input")
    outputs = tuple(values[b.name] for b in program.buffers if b.role == "output")
    given = tuple(v for v in inputs if v.constant is None)
    calls = ImportedCalls(given, outputs, (ProgramCall(program, inputs, outputs),))
    names = OnnxNames([v.name for v in given], [v.name for v in outputs])
    return build(spec, calls, names, weights_file, Import())
