"""Text of the program half of an import: a line for each call, or for each step of the plan."""

from __future__ import annotations

from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, Value


def calls_text(calls: ImportedCalls) -> str:
    """``results = program(values)``, and the ONNX nodes that a call stands for."""
    lines = [f"inputs {_values(calls.inputs)}", f"outputs {_values(calls.outputs)}"]
    for call in calls.calls:
        line = f"{_values(call.outputs)} = {call.program.name}({_values(call.inputs)})"
        lines.append(line + (f"  # {', '.join(call.origin.nodes)}" if call.origin.nodes else ""))
    return "\n".join(lines) + "\n"


def _values(values: tuple[Value, ...]) -> str:
    return ", ".join(
        f"{v.name}:{v.dtype}[{'x'.join(map(str, v.shape))}]{' constant' * (v.constant is not None)}"
        for v in values
    )


def steps_text(built: BuiltModel) -> str:
    """``results = workload(tensors)`` of each node, in the order of the plan."""
    return "".join(
        f"{', '.join(node.outputs)} = {node.workload}({', '.join(node.inputs)})  # {node.name}\n"
        for node in built.graph.nodes
    )
