"""Numerical diff: the tensors of a model in the page against native ONNX Runtime."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.model import Node, TensorSpec
from nnjit_studio.support.tables import text_table
from nnjit_studio.verdict.figures import element_errors, magnitude

TOLERANCE = 1e-3
"""Of the largest error relative to the tensor's scale, above which a tensor is bad."""
REASONS = {
    "fused": "fused into a step, which keeps its last tensor alone",
    "view": "a view or a constant, which no step computes",
    "own": "made on the way to a tensor of the ONNX file, which has none such",
    "shape": "of another size in ONNX Runtime",
}


@dataclass(frozen=True)
class TensorDiff:
    """One tensor compared with its reference."""

    tensor: str
    node: str
    """The step that computes it."""
    op: str
    """What runs in that step."""
    position: int
    """Of the step in the order of execution, from 0."""
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    """Largest absolute error; infinite where only one of both is NaN, or infinite."""
    scale: float
    """Largest finite magnitude of the reference."""
    max_rel: float
    """``max_abs / scale``; ``max_abs`` itself where the reference is zero everywhere."""
    cosine: float
    """Of the angle between both as vectors, over the elements that are finite in both."""
    nans: tuple[int, int]
    """How many there are in the page, and in the reference."""
    infs: tuple[int, int]
    """How many there are in the page, and in the reference."""
    worst: tuple[int, ...]
    """Index of the element with the largest error; ``got`` and ``expected`` are its values."""
    got: float
    expected: float
    inherited: bool = False
    """Beyond the tolerance only because its step's inputs differ: ONNX Runtime agrees with the
    step when it is given the page's own inputs, or reacts as strongly to a change of the model's
    inputs by the rounding of float32."""
    output: bool = False
    """Whether it is an output of the model."""


@dataclass(frozen=True)
class Missing:
    """A tensor that cannot be compared, and why; ``kind`` is a key of :data:`REASONS`."""

    tensor: str
    node: str
    kind: str
    why: str


@dataclass(frozen=True)
class Diff:
    """All tensors that were compared, worst first, and those that could not be."""

    model: str
    tolerance: float
    tensors: tuple[TensorDiff, ...]
    missing: tuple[Missing, ...]

    @property
    def bad(self) -> tuple[TensorDiff, ...]:
        """The tensors beyond the tolerance that their steps made so, in the order of execution."""
        found = [t for t in self.tensors if not t.max_rel <= self.tolerance and not t.inherited]
        return tuple(sorted(found, key=lambda t: t.position))

    def to_json(self) -> dict[str, Any]:
        """As JSON; what is infinite is the string ``"inf"``."""
        first = self.bad[0].node if self.bad else None
        return {
            "model": self.model,
            "tolerance": self.tolerance,
            "bad": len(self.bad),
            "first_bad_node": first,
            "tensors": [_finite(asdict(t)) for t in self.tensors],
            "missing": [asdict(m) for m in self.missing],
        }


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {
        k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()
    }


@dataclass(frozen=True)
class Placed:
    """A tensor that a step leaves in a buffer; ``step`` counts the plan's steps."""

    spec: TensorSpec
    node: Node
    position: int
    step: int
    buffer: int


def compare(tensor: Placed, got: NDArray[Any], expected: NDArray[Any]) -> TensorDiff:
    """One row of the diff; both arrays have the same number of elements."""
    x, y = (np.asarray(a).reshape(-1).astype(np.float64) for a in (got, expected))
    both = np.isfinite(x) & np.isfinite(y)
    error, scale = element_errors(x, y), magnitude(y)
    max_abs = float(np.max(error, initial=0.0))
    worst = int(np.argmax(error)) if error.size else 0
    return TensorDiff(
        tensor=tensor.spec.name,
        node=tensor.node.name,
        op=tensor.node.op,
        position=tensor.position,
        shape=tensor.spec.shape,
        dtype=tensor.spec.dtype,
        max_abs=max_abs,
        scale=scale,
        max_rel=max_abs / scale if scale else max_abs,
        cosine=_cosine(x[both], y[both]),
        nans=(int(np.isnan(x).sum()), int(np.isnan(y).sum())),
        infs=(int(np.isinf(x).sum()), int(np.isinf(y).sum())),
        worst=tuple(map(int, np.unravel_index(worst, tensor.spec.shape))) if error.size else (),
        got=float(x[worst]) if error.size else 0.0,
        expected=float(y[worst]) if error.size else 0.0,
    )


def _cosine(x: NDArray[Any], y: NDArray[Any]) -> float:
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    if lengths:
        return float(np.dot(x, y) / lengths)
    return 1.0 if not x.any() and not y.any() else 0.0


def rank(tensor: TensorDiff) -> tuple[bool, float, int]:
    """The order of tensors: outputs first, then the worst."""
    return not tensor.output, -tensor.max_rel, tensor.position


def merged(before: Diff, now: Diff) -> Diff:
    """The tensors of both, those of ``now`` in place of older ones."""
    fresh = {t.tensor for t in now.tensors} | {m.tensor for m in now.missing}
    tensors = (*now.tensors, *(t for t in before.tensors if t.tensor not in fresh))
    return replace(
        now,
        tensors=tuple(sorted(tensors, key=rank)),
        missing=(*now.missing, *(m for m in before.missing if m.tensor not in fresh)),
    )


def as_text(diff: Diff, top: int) -> str:
    """A table for people, outputs first, then the worst tensors, and the first bad step."""
    rows = (
        (
            f"{'output ' * t.output}{t.tensor[-52:]}", t.node[-36:],
            f"{t.max_rel:.2e}", f"{t.max_abs:.2e}",
            f"{abs(1 - t.cosine):.1e}", _pair(t.nans), _pair(t.infs),
        )
        for t in diff.tensors[:top]
    )  # fmt: skip
    titles = ("tensor", "step", "max rel", "max abs", "1-cosine", "NaN", "Inf")
    lines = [text_table(titles, rows, left=(0, 1))]
    if len(diff.tensors) > top:
        lines.append(f"... and {len(diff.tensors) - top} more, none of them worse")
    lines += ["", summary(diff)]
    for kind, words in REASONS.items():
        names = [m.tensor for m in diff.missing if m.kind == kind]
        if names:
            lines.append(f"{len(names)} not compared: {words}, such as {names[0]!r}.")
    return "\n".join(lines)


def summary(diff: Diff) -> str:
    """How many tensors differ, and which is the first of them."""
    bad, few = diff.bad, [t for t in diff.tensors if t.inherited]
    if not bad and few:
        return (
            f"{len(diff.tensors) - len(few)} of {len(diff.tensors)} tensors are within "
            f"{diff.tolerance:g} of their scale. The others differ as their inputs do: given the "
            "same inputs, ONNX Runtime computes the same, or it reacts as strongly to rounding."
        )
    if not bad:
        return f"All {len(diff.tensors)} tensors are within {diff.tolerance:g} of their scale."
    first = bad[0]
    return (
        f"{len(bad)} of {len(diff.tensors)} tensors differ by more than {diff.tolerance:g} of "
        f"their scale; the first in order of execution is {first.tensor!r} of step "
        f"{first.position} ({first.node}, {first.op}): element {list(first.worst)} is "
        f"{first.got:.6g}, not {first.expected:.6g}."
    )


def details(diff: Diff) -> str:
    """Everything about few tensors, for one that was asked for by name."""
    blocks = []
    for t in diff.tensors:
        rows = {
            "tensor": f"{t.tensor}, {'x'.join(map(str, t.shape)) or 'scalar'} {t.dtype}",
            "step": f"{t.position}: {t.node} ({t.op})",
            "largest error": f"{t.max_abs:.3e}, {t.max_rel:.3e} of the scale {t.scale:.3g}",
            "there": f"element {list(t.worst)} is {t.got:.9g}, not {t.expected:.9g}",
            "cosine": f"{t.cosine:.9f}",
            "NaN, Inf": f"{_pair(t.nans)}, {_pair(t.infs)}",
        }
        blocks.append(text_table(("", ""), rows.items(), left=(0, 1)))
    blocks += [f"{m.tensor}: {m.why}" for m in diff.missing]
    return "\n\n".join(blocks)


def _pair(counts: tuple[int, int]) -> str:
    return "-" if not any(counts) else f"{counts[0]}/{counts[1]}"
