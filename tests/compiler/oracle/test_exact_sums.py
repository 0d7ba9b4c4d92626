"""Sums of bytes of the reference, which no processor may saturate."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from exact_native import exact_session
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.compiler.oracle import exact_sums
from nnjit_studio.compiler.oracle.exact_sums import with_exact_sums

KINDS = {np.uint8: TensorProto.UINT8, np.int8: TensorProto.INT8}


def product(a: np.ndarray, b: np.ndarray, constant: bool, pointed: bool) -> onnx.ModelProto:
    """MatMulInteger; with ``pointed`` both zero points are 3."""
    ports = [helper.make_tensor_value_info("a", KINDS[a.dtype.type], a.shape)]
    held = [numpy_helper.from_array(b, "b")] if constant else []
    if not constant:
        ports.append(helper.make_tensor_value_info("b", KINDS[b.dtype.type], b.shape))
    points = ["az", "bz"] if pointed else []
    held += [
        numpy_helper.from_array(np.array(3, of.dtype), name)
        for name, of in zip(points, (a, b), strict=False)
    ]
    node = helper.make_node("MatMulInteger", ["a", "b", *points], ["y"])
    out = [helper.make_tensor_value_info("y", TensorProto.INT32, None)]
    graph = helper.make_graph([node], "g", ports, out, held)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize(
    ("a_kind", "b_kind", "constant", "pointed"),
    list(itertools.product(KINDS, KINDS, (True, False), (True, False))),
)
def test_products_of_bytes_are_exact(a_kind, b_kind, constant: bool, pointed: bool) -> None:
    rng = np.random.default_rng(0)
    full = [(np.iinfo(kind).min, np.iinfo(kind).max + 1) for kind in (a_kind, b_kind)]
    a, b = rng.integers(*full[0], (9, 64)), rng.integers(*full[1], (64, 32))
    expected = (a - 3 * pointed) @ (b - 3 * pointed)
    a, b = a.astype(a_kind), b.astype(b_kind)
    feeds = {"a": a} if constant else {"a": a, "b": b}
    session = exact_session(product(a, b, constant, pointed), passes=False)
    np.testing.assert_array_equal(session.run(None, feeds)[0], expected)


@pytest.mark.parametrize("changed", [False, True])
def test_a_session_of_a_file_has_exact_sums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    """On a processor with VNNI the file itself has them: what is run is looked at."""
    a, b = np.full((2, 64), 255, np.uint8), np.full((64, 4), 127, np.int8)
    model, made = product(a, b, constant=True, pointed=False), []
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)

    def session(given: object, **options: object) -> object:
        assert isinstance(given, bytes), "not the file"
        nodes = onnx.load_from_string(given).graph.node
        made.append([n.op_type for n in nodes])
        return native_session(given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(exact_sums, "native_session", session)
    given = onnx.load(str(tmp_path / "m.onnx"), load_external_data=False) if changed else None
    found = exact_sums.exact_session(tmp_path / "m.onnx", given).run(None, {"a": a})[0]
    np.testing.assert_array_equal(found, np.full((2, 4), 64 * 255 * 127))
    assert "Cast" in made[0] and made[0][-1] == "MatMulInteger"


def test_signed_weights_alone_change() -> None:
    unsigned, signed = np.zeros((2, 4), np.uint8), np.zeros((4, 2), np.int8)
    for a, b, changes in ((unsigned, signed, True), (unsigned, unsigned.T, False),
                          (unsigned.astype(np.int8), signed, False)):  # fmt: skip
        model = product(a, b, constant=True, pointed=True)
        assert (with_exact_sums(model) != model) == changes
