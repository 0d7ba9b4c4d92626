"""Products and attention whose result the model gives in f16 keep their templates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_models import save
from run_plan import run_by_kernels
from run_plan_wgsl import run_by_documents

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.templates import on_gpu, subject_of

NODES = {
    "matmul": [helper.make_node("MatMul", ["a", "b"], ["y"])],
    "attention": [
        helper.make_node("Transpose", ["b"], ["bt"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "bt"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "c"], ["y"]),
    ],
}
SHAPES = {
    "matmul": {"a": (9, 32), "b": (32, 20), "y": (9, 20)},
    "attention": {"a": (2, 5, 32), "b": (2, 8, 32), "c": (2, 8, 32), "y": (2, 5, 32)},
}


@pytest.mark.parametrize("kind", ["matmul", "attention"])
def test_a_result_in_f16_is_rounded_behind_its_template(kind: str, tmp_path: Path) -> None:
    shapes, rng = SHAPES[kind], np.random.default_rng(2)
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
        for name, shape in shapes.items()
    ]
    model = save(tmp_path / "m.onnx", NODES[kind], ports[:-1], ports[-1:])
    built = import_model(model, tmp_path / "w.bin")
    (key,) = (w.key for w in built.workloads if w.kind == kind)
    program = built.programs[key]
    assert key.split(":")[2].startswith("f32") and subject_of(program) is not None
    assert on_gpu(program), "a GPU has attention by its template alone"
    feeds = {n: (rng.standard_normal(s) / 2).astype(np.float16) for n, s in shapes.items()}
    del feeds["y"]
    wide = {n: v.astype(np.float64) for n, v in feeds.items()}
    if kind == "matmul":
        exact = wide["a"] @ wide["b"]
    else:
        raised = np.exp(wide["a"] @ wide["b"].swapaxes(1, 2))
        exact = raised / raised.sum(-1, keepdims=True) @ wide["c"]
    for found in (
        run_by_kernels(built, tmp_path / "w.bin", feeds, "relaxed-simd"),
        run_by_documents(built, tmp_path / "w.bin", feeds, "wgsl"),
    ):
        assert found["y"].dtype == np.float16
        assert np.abs(found["y"] - exact).max() <= 1e-3 * np.abs(exact).max()
