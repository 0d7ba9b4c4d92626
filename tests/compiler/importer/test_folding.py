"""TVM's folding of constants makes the code of a function once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import save
from operator_cases import case, draw, reference
from tvm import te
from tvm.target import Target

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.tvm_adapter import folding


def doubled(rows: int, name: str = "x") -> object:
    x = te.placeholder((rows,), name=name)
    return te.create_prim_func([x, te.compute((rows,), lambda i: x[i] + x[i], name="y")])


def test_equal_functions_share_their_code() -> None:
    target = Target("llvm")
    first = folding.build(doubled(3), target)
    assert folding.build(doubled(3, "other"), target).same_as(first)
    assert not folding.build(doubled(4), target).same_as(first)


def test_a_model_imported_again_needs_no_code(tmp_path: Path) -> None:
    scales = np.array([1, 1, 0.75, 1.25], np.float32)
    image, none = draw("f32", 1, 2, 5, 7), np.zeros(0, np.float32)
    given = case("Resize", "f32", image, none, scales, weights=(1, 2), opset=19, mode="cubic")
    save(reference(given)[0], tmp_path / "m.onnx")
    folding._built.cache_clear()
    import_model(tmp_path / "m.onnx", tmp_path / "first.bin")
    made = folding._built.cache_info()
    import_model(tmp_path / "m.onnx", tmp_path / "second.bin")
    again = folding._built.cache_info()
    assert made.misses == again.misses > 0
    assert made.hits > 0, "the two axes have some functions in common"
    assert (tmp_path / "first.bin").read_bytes() == (tmp_path / "second.bin").read_bytes()
