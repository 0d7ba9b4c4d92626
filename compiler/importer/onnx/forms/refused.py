"""Forms of operators that are refused, with what they would need."""

from __future__ import annotations

from collections.abc import Callable

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter


def known_ahead(*positions: int) -> Callable[[Rewriter], bool]:
    """The rule of an operator whose inputs at these positions say what is made."""

    def rule(r: Rewriter) -> bool:
        for i in positions:
            if i < len(r.node.input) and r.node.input[i]:
                r.constant(i, "shape, axis or limit that is known ahead")
        return False

    return rule


def sized_by_data(r: Rewriter) -> bool:
    raise r.refuse("dynamic shapes: its output is as large as its data says")
