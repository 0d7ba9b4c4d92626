"""What is made of scores at the end of a model of ai.onnx.ml."""

from __future__ import annotations

import numpy as np

from nnjit_studio.compiler.importer.onnx.rewriter import Rewriter

_NOTHING = 1e-7
"""Scores up to this size are none to SOFTMAX_ZERO."""


def transformed(r: Rewriter, scores: str, transform: str, out: str) -> None:
    """Write scores [N, classes] by the transformation of this name."""
    if transform == "NONE":
        r.op("Identity", scores, out=out)
    elif transform == "LOGISTIC":
        r.op("Sigmoid", scores, out=out)
    elif transform == "SOFTMAX":
        r.op("Softmax", scores, axis=1, out=out)
    elif transform == "SOFTMAX_ZERO":
        _softmax_zero(r, scores, out)
    else:
        raise r.refuse("scores without the transformation PROBIT")


def _softmax_zero(r: Rewriter, scores: str, out: str) -> None:
    """A softmax in which what is zero stays nearly so."""
    largest = r.along("ReduceMax", scores, [1], keepdims=1)
    share = r.op("Exp", r.op("Sub", scores, largest))
    small = r.op("Mul", scores, r.op("Exp", r.op("Neg", largest)))
    some = r.op("Greater", r.op("Abs", scores), r.weight(_NOTHING, np.float32))
    parts = r.op("Where", some, share, small)
    r.op("Div", parts, r.along("ReduceSum", parts, [1], keepdims=1), out=out)
