"""Every operator of ONNX Runtime's own that has a rule stands in docs/operators.md."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import helper

from nnjit_studio.compiler.importer.onnx import contrib, decompose
from nnjit_studio.compiler.importer.onnx.ml.rules import RULES

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
DOMAIN = "com.microsoft"


def has_rule(op: str) -> bool:
    node: onnx.NodeProto = helper.make_node(op, ["x"], ["y"], domain=DOMAIN)
    return (contrib.rule_of(node) or decompose.rule_of(node)) is not None


def named() -> set[str]:
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    return {op for line in rows for op in line.removeprefix("| ").split(" | ")[0].split(", ")}


def test_each_rule_has_a_row_and_each_row_a_rule() -> None:
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    known = {s.name for s in get_all_operator_schema() if s.domain == DOMAIN}
    ruled = {op for op in known if has_rule(op)}
    assert {"DynamicQuantizeLSTM", "QAttention", "FusedMatMul"} <= ruled
    assert ruled - named() == set()
    assert RULES.keys() - named() == set()
    own = PAGE.read_text("utf-8").split("## ONNX Runtime's own operators")[1]
    rows = {
        op
        for line in own.splitlines()
        if line.startswith("| ") and not line.startswith("| operator")
        for op in line.removeprefix("| ").split(" | ")[0].split(", ")
    }
    assert rows <= ruled
