"""Sizes at which a window is larger than its map count as sizes that do not run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from nnjit_studio.compiler.any_size.fit import Numbers
from nnjit_studio.compiler.any_size.probe import Trial, probe
from nnjit_studio.compiler.any_size.windows import windows
from nnjit_studio.model.size import Dim, size


def pool(**attributes: object) -> NodeProto:
    return helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], **attributes)


@pytest.mark.parametrize(
    ("attributes", "least"),
    [
        ({}, (3, 3)),
        ({"pads": [1, 0, 1, 0]}, (1, 3)),
        ({"dilations": [2, 1]}, (5, 3)),
        ({"auto_pad": "VALID"}, (3, 3)),
    ],
)
def test_the_extents_that_a_window_wants(attributes: dict[str, object], least: object) -> None:
    (window,) = windows([pool(**attributes)])
    assert (window.tensor, window.least) == ("x", least)
    assert window.fits((1, 8, 5, 3)) and not window.fits((1, 8, 5, 2))


def test_padding_that_follows_from_the_map_fits_every_window() -> None:
    assert windows([pool(auto_pad="SAME_UPPER"), pool(pads=[1, 1, 1, 1])]) == ()


def test_a_range_begins_where_all_windows_fit(tmp_path: Path) -> None:
    """ONNX Runtime answers with one place where two pixels slide over one."""
    nodes = [
        helper.make_node("MaxPool", ["x"], ["a"], kernel_shape=[4, 4], strides=[4, 4]),
        helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, None, None])
    graph = helper.make_graph(nodes, "g", [x], [y])
    path = tmp_path / "m.onnx"
    onnx_file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(onnx_file.SerializeToString())
    feeds = {"x": np.ones((1, 3, 20, 30), np.float32)}
    found = probe(Trial(path, feeds), feeds)
    assert {d.name: d.low for d in found.dims} == {"h": 8, "w": 8}


def test_a_product_of_shifted_sizes_has_a_formula() -> None:
    """The part of a padded map that strided windows see: (2 h + 1) rows of (2 w + 3) floats."""
    h, w = size(Dim("h", 1, 1000, 1)), size(Dim("w", 1, 1000, 1))
    at = [(3, 8), (90, 21), (45, 60), (7, 33), (120, 14), (61, 62)]
    rows = Numbers({tuple(a for a, _ in at): h, tuple(b for _, b in at): w})
    wanted = tuple(4 * (2 * a + 1) * (2 * b + 3) for a, b in at)
    assert rows.formula(wanted) is None
    found = rows.shifted_formula(wanted, (h, w))
    assert found is not None and found.at({"h": 11, "w": 13}) == 4 * 23 * 29
    assert rows.shifted_formula((*wanted[:5], wanted[5] + 1), (h, w)) is None
