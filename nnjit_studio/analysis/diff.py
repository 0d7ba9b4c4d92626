"""Numerical diff: the tensors of a model in the page against native ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import UserError
from nnjit_studio.model import NUMPY_DTYPES, Graph, Node, Plan, TensorSpec
from nnjit_studio.records import Tap

TOLERANCE = 1e-3
"""Of the largest error relative to the tensor's scale, above which a tensor is bad."""
REASONS = {
    "fused": "fused into a step, which keeps its last tensor alone",
    "view": "a view or a constant, which no step computes",
    "own": "made on the way to a tensor of the ONNX file, which has none such",
    "shape": "of another size in ONNX Runtime",
}
PASS_BYTES = 48 * 2**20
"""Copied in one run of the page: a frame holds 128 MiB."""


class Comparable(Protocol):
    """What a diff needs of the workbench: an open model with its kernels registered."""

    model: Any

    def tap(self, taps: Sequence[Tap]) -> list[bytes]: ...

    def onnx_nodes(self) -> list[tuple[str, tuple[str, ...]]]: ...

    def onnx_tensors(self, names: Sequence[str]) -> dict[str, NDArray[Any]]: ...


@dataclass(frozen=True)
class TensorDiff:
    """One tensor beside its reference.

    Attributes
    ----------
    node, op
        The step that computes it, and what runs there.
    position
        Of the step in the order of execution, from 0.
    max_abs
        Largest absolute error; infinite where only one of both is NaN, or infinite.
    scale
        Largest finite magnitude of the reference.
    max_rel
        ``max_abs / scale``; ``max_abs`` itself where the reference is zero everywhere.
    cosine
        Of the angle between both as vectors, over the elements that are finite in both.
    nans, infs
        How many there are: in the page, in the reference.
    worst
        Index of the element with the largest error; ``got`` and ``expected`` are its values.
    """

    tensor: str
    node: str
    op: str
    position: int
    shape: tuple[int, ...]
    dtype: str
    max_abs: float
    scale: float
    max_rel: float
    cosine: float
    nans: tuple[int, int]
    infs: tuple[int, int]
    worst: tuple[int, ...]
    got: float
    expected: float


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
        """The tensors beyond the tolerance, in the order of execution."""
        found = [t for t in self.tensors if not t.max_rel <= self.tolerance]
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


def diff_model(
    bench: Comparable,
    name: str = "",
    tolerance: float = TOLERANCE,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> Diff:
    """Compare the tensors of the open model; its best kernels have to be registered.

    Parameters
    ----------
    name
        A tensor, a step or an ONNX node: only what belongs to it is compared.

    Raises
    ------
    UserError
        When nothing has that name, nothing can be compared, or ONNX Runtime cannot run the model.
    """
    graph, plan = bench.model.graph, bench.model.plan
    on_phase("starting native ONNX Runtime")
    nodes = bench.onnx_nodes()
    reference = {t for _, outputs in nodes for t in outputs}
    ours = list(_tensors(graph, plan))
    missing = [*_nameless(ours, reference), *_fused_away(graph, nodes)]
    common = [t for t in ours if _parts(t.spec.name, reference)]
    if name:
        common = [t for t in common if name in _names(t)]
        missing = [m for m in missing if name in (m.tensor, m.node)]
        if not common and not missing:
            raise UserError(
                f"The model has no tensor or node {name!r}.",
                "`nnjit diff MODEL --json` lists them all.",
            )
    elif not common:
        raise UserError(
            "No tensor of the ONNX file is one that a step computes: nothing can be compared.",
            "Name a node with --node to see what became of it.",
        )
    rows: list[TensorDiff] = []
    for group in _groups(common):
        on_phase(f"comparing {len(rows)} to {len(rows) + len(group)} of {len(common)} tensors")
        got = dict(zip((t.spec.name for t in group), _page_tensors(bench, group), strict=True))
        wanted = {t.spec.name: _parts(t.spec.name, reference) for t in group}
        expected = bench.onnx_tensors([part for parts in wanted.values() for part in parts])
        for tensor in group:
            found = _joined([expected[part] for part in wanted[tensor.spec.name]], tensor.spec)
            if found.size != tensor.spec.size:
                why = f"its shape is {found.shape} in ONNX Runtime, {tensor.spec.shape} here"
                missing.append(Missing(tensor.spec.name, tensor.node.name, "shape", why))
            else:
                rows.append(compare(tensor, got[tensor.spec.name], found))
    rows.sort(key=lambda row: (-row.max_rel, row.position))
    return Diff(graph.name, tolerance, tuple(rows), tuple(missing))


@dataclass(frozen=True)
class Placed:
    """A tensor that a step leaves in a buffer; ``step`` counts the plan's steps."""

    spec: TensorSpec
    node: Node
    position: int
    step: int
    buffer: int


def _tensors(graph: Graph, plan: Plan) -> Iterator[Placed]:
    calls = [i for i, step in enumerate(plan.steps) if step.op == "call"]
    for position, (node, step) in enumerate(zip(graph.nodes, calls, strict=True)):
        # Arguments are inputs, outputs, workspaces.
        buffers = plan.steps[step].args[len(node.inputs) :]
        for tensor, buffer in zip(node.outputs, buffers, strict=False):
            yield Placed(graph.tensors[tensor], node, position, step, buffer)


def _parts(tensor: str, reference: set[str]) -> list[str]:
    """The ONNX tensors that are in one of ours: itself, or those that a merge put side by side."""
    if tensor in reference:
        return [tensor]
    parts = tensor.split("|")
    return parts if len(parts) > 1 and reference.issuperset(parts) else []


def _names(tensor: Placed) -> tuple[str, ...]:
    name, node = tensor.spec.name, tensor.node
    return (name, *name.split("|"), node.name, *node.source)


def _joined(parts: Sequence[NDArray[Any]], spec: TensorSpec) -> NDArray[Any]:
    """One tensor of several that lie side by side in each of its rows.

    Of three dimensions it holds the blocks of columns one behind the other.
    """
    if len(parts) == 1 or sum(p.size for p in parts) != spec.size:
        return parts[0]
    rows = spec.shape[-2]
    joined = np.concatenate([p.reshape(rows, -1) for p in parts], axis=1)
    blocks: NDArray[Any] = joined.reshape(rows, -1, spec.shape[-1]).swapaxes(0, 1)
    return blocks


def _nameless(ours: Sequence[Placed], reference: set[str]) -> Iterator[Missing]:
    for t in ours:
        if not _parts(t.spec.name, reference):
            why = "made on the way: the ONNX file has none such"
            yield Missing(t.spec.name, t.node.name, "own", why)


def _fused_away(graph: Graph, nodes: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[Missing]:
    steps = {source: node.name for node in graph.nodes for source in node.source}
    known = {part for tensor in graph.tensors for part in (tensor, *tensor.split("|"))}
    for onnx_node, outputs in nodes:
        for tensor in outputs:
            if tensor in known:
                continue
            if onnx_node in steps:
                why = f"fused into step {steps[onnx_node]!r}"
                yield Missing(tensor, onnx_node, "fused", why)
            else:
                why = "a view or a constant: no step computes it"
                yield Missing(tensor, onnx_node, "view", why)


def _groups(tensors: Sequence[Placed]) -> Iterator[list[Placed]]:
    """In order, each with at most ``PASS_BYTES`` together, or one tensor alone."""
    group: list[Placed] = []
    for tensor in tensors:
        if group and sum(t.spec.nbytes for t in (*group, tensor)) > PASS_BYTES:
            yield group
            group = []
        group.append(tensor)
    if group:
        yield group


def _page_tensors(bench: Comparable, group: Sequence[Placed]) -> Iterator[NDArray[Any]]:
    if len(group) == 1 and group[0].spec.nbytes > PASS_BYTES:
        (tensor,) = group
        parts = [_tap(tensor, at) for at in range(0, tensor.spec.nbytes, PASS_BYTES)]
        yield _array(tensor, b"".join(bench.tap([part])[0] for part in parts))
        return
    for tensor, data in zip(group, bench.tap([_tap(t) for t in group]), strict=True):
        yield _array(tensor, data)


def _tap(tensor: Placed, offset: int = 0) -> Tap:
    nbytes = min(PASS_BYTES, tensor.spec.nbytes - offset)
    return Tap(tensor.step, tensor.buffer, offset, nbytes)


def _array(tensor: Placed, data: bytes) -> NDArray[Any]:
    return np.frombuffer(data, NUMPY_DTYPES[tensor.spec.dtype]).reshape(tensor.spec.shape)


def compare(tensor: Placed, got: NDArray[Any], expected: NDArray[Any]) -> TensorDiff:
    """One row of the diff; both arrays have the same number of elements."""
    x, y = (np.asarray(a).reshape(-1).astype(np.float64) for a in (got, expected))
    both = np.isfinite(x) & np.isfinite(y)
    with np.errstate(invalid="ignore"):
        error = np.where(both, np.abs(x - y), np.inf)
    alike = (x == y) | (np.isnan(x) & np.isnan(y))
    error[alike] = 0.0
    scale = float(np.max(np.abs(y), where=np.isfinite(y), initial=0.0))
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


def as_text(diff: Diff, top: int) -> str:
    """A table for people, the worst tensors first, and the first bad step."""
    lines = [
        f"{'tensor':<52} {'step':<36} {'max rel':>9} {'max abs':>9} {'1-cosine':>9} "
        f"{'NaN':>5} {'Inf':>5}"
    ]
    for t in diff.tensors[:top]:
        lines.append(
            f"{t.tensor[-52:]:<52} {t.node[-36:]:<36} {t.max_rel:9.2e} {t.max_abs:9.2e} "
            f"{abs(1 - t.cosine):9.1e} {_pair(t.nans):>5} {_pair(t.infs):>5}"
        )
    if len(diff.tensors) > top:
        lines.append(f"... and {len(diff.tensors) - top} more, all better than these")
    lines += ["", summary(diff)]
    for kind, words in REASONS.items():
        names = [m.tensor for m in diff.missing if m.kind == kind]
        if names:
            lines.append(f"{len(names)} not compared: {words}, such as {names[0]!r}.")
    return "\n".join(lines)


def summary(diff: Diff) -> str:
    """How many tensors differ, and which is the first of them."""
    bad = diff.bad
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
        rows: Mapping[str, Any] = {
            "tensor": f"{t.tensor}, {'x'.join(map(str, t.shape)) or 'scalar'} {t.dtype}",
            "step": f"{t.position}: {t.node} ({t.op})",
            "largest error": f"{t.max_abs:.3e}, {t.max_rel:.3e} of the scale {t.scale:.3g}",
            "there": f"element {list(t.worst)} is {t.got:.9g}, not {t.expected:.9g}",
            "cosine": f"{t.cosine:.9f}",
            "NaN, Inf": f"{_pair(t.nans)}, {_pair(t.infs)}",
        }
        blocks.append("\n".join(f"{k:<14} {v}" for k, v in rows.items()))
    blocks += [f"{m.tensor}: {m.why}" for m in diff.missing]
    return "\n\n".join(blocks)


def _pair(counts: tuple[int, int]) -> str:
    return "-" if not any(counts) else f"{counts[0]}/{counts[1]}"
