"""What an import of a file would stop at: operators that no rule is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx

from nnjit_studio.compiler import tvm_adapter
from nnjit_studio.compiler.importer.onnx import contrib, decompose
from nnjit_studio.compiler.importer.onnx.forms.refused import sized_by_data
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.onnx_file.survey import flat
from nnjit_studio.model.survey import Obstacle

CONTROL = frozenset({"If", "Loop", "Scan"})
"""Operators that an import may fold away, once sizes and constants are known."""


def obstacles(path: Path) -> tuple[Obstacle, ...]:
    """Operators without any rule. Whether a form of a known one is refused tells the import.

    Raises
    ------
    ModelError
        When the file is no valid model.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for name, node in _without_rule(check.load_model(path)):
        found.setdefault((node.op_type, node.domain), []).append(name)
    return tuple(
        Obstacle(op, tuple(names), _why(op, domain)) for (op, domain), names in found.items()
    )


def may_be_refused(model: onnx.ModelProto) -> bool:
    """Whether an operator has no rule, or one that an import has to fold away."""
    return any(_without_rule(model)) or any(
        node.op_type == "Compress" or decompose.rule_of(node) is sized_by_data
        for _, node in flat(model.graph)
    )


def _without_rule(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.NodeProto]]:
    supported = tvm_adapter.supported_operators() | CONTROL
    for name, node in flat(model.graph):
        ruled = (decompose.rule_of(node) or contrib.rule_of(node)) is not None
        if not ruled and (node.op_type not in supported or node.domain not in check.DOMAINS):
            yield name, node


def _why(op: str, domain: str) -> str:
    if domain == check.RUNTIME:
        return "an operator of ONNX Runtime's own, without a rule in the importer"
    if domain not in check.DOMAINS:
        return f"an operator of the domain {domain}, which the importer does not know"
    return "no rule in the importer"
