"""The operator that walks down decision trees; TVM carries it as one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Binary,
    Buffer,
    Const,
    Load,
    Loop,
    Program,
    Select,
    Stage,
    Store,
    Var,
)
from nnjit_studio.errors import UnsupportedOpError

TREE_OP = "TreeWalk"
"""The ONNX operator that :mod:`nnjit_studio.compiler.importer.onnx.ml.trees` writes: features
[N, F] f32, a table [nodes, 4] i32 of a feature and the nodes behind it where the feature is at
most the node's threshold, where it is above, and where it is NaN, the thresholds [nodes] f32, and
the roots [trees] i32. The result is the leaf of each tree, [N, trees] i32. The attribute ``depth``
is the number of steps; a leaf leads to itself."""
TREE_FORM = "tree walk "
"""What the forms of all begin with; the number of steps follows."""


class TreeWalk(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The walk as one call."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = [int(d) for d in inputs[0].ty.shape]
        if len(given) != 2:
            raise UnsupportedOpError("Decision trees need features of two dimensions.")
        shape = [given[0], int(inputs[3].ty.shape[0])]
        kind = relax.TensorType(shape, "int32")
        return relax.call_pure_packed(f"{TREE_FORM}{attr['depth']}", *inputs, ty_args=kind)


def tree_program(form: str, inputs: Sequence[Any], output: Any) -> Program:
    """The program of a carried call, from the values that it takes and gives."""
    steps = int(form.removeprefix(TREE_FORM))
    width, trees = inputs[0].shape[1], output.shape[1]
    row, tree = Var("n"), Var("t")
    here = Load("out0", row * trees + tree)

    def entry(column: int) -> Load:
        return Load("in1", here * 4 + column)

    # A feature that is not there reads the last one, and nothing outside the row.
    value = Load("in0", row * width + Binary("min", entry(0), Const(width - 1, "i32")))
    below = Select(Binary("le", value, Load("in2", here)), entry(1), entry(2))
    step = Store("out0", here.index, Select(Binary("ne", value, value), entry(3), below))
    start = Store("out0", here.index, Load("in3", tree))
    buffers = [
        Buffer(f"in{i}", v.dtype, v.shape, "input", v.constant is not None)
        for i, v in enumerate(inputs)
    ]
    buffers.append(Buffer("out0", output.dtype, output.shape, "output"))
    axes = (Axis("n", output.shape[0]), Axis("t", trees))
    walk = Loop("k", steps, (step,)) if steps else None
    stage = Stage("trees", axes, steps=(start, walk) if walk else (start,))
    return Program(form, tuple(buffers), (stage,))
