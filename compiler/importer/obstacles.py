"""What an import of a file would stop at: operators that no rule is for."""

from __future__ import annotations

from pathlib import Path

from nnjit_studio.compiler import tvm_adapter
from nnjit_studio.compiler.importer.onnx import contrib, decompose
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
    supported = tvm_adapter.supported_operators() | CONTROL
    found: dict[tuple[str, str], list[str]] = {}
    for name, node in flat(check.load_model(path).graph):
        ruled = (decompose.rule_of(node) or contrib.rule_of(node)) is not None
        if not ruled and (node.op_type not in supported or node.domain not in check.DOMAINS):
            found.setdefault((node.op_type, node.domain), []).append(name)
    return tuple(
        Obstacle(op, tuple(names), _why(op, domain)) for (op, domain), names in found.items()
    )


def _why(op: str, domain: str) -> str:
    if domain == check.RUNTIME:
        return "an operator of ONNX Runtime's own, without a rule in the importer"
    if domain not in check.DOMAINS:
        return f"an operator of the domain {domain}, which the importer does not know"
    return "no rule in the importer"
