"""Tensors of the open model compared with native ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.analysis.diff import TOLERANCE, Diff, Missing, Placed, TensorDiff, compare, rank
from nnjit_studio.errors import UserError
from nnjit_studio.model import DTYPE_BYTES, NUMPY_DTYPES, Graph, Plan, TensorSpec
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records import Tap
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.verdict.figures import largest_error
from nnjit_studio.workbench.model import ModelOnPage

PASS_BYTES = 48 * 2**20
"""Copied in one run of the page: a frame holds 128 MiB."""
NOISE = 2.0**-20
"""Relative change of the model's inputs, eight times the rounding of float32."""
NEIGHBOURS, SPREAD = 12, 4.0
"""How many of the nearest tensors within the tolerance tell how large errors are in units of that
change, and how far above their median one may be."""
CHECKED_AGAIN = 24
"""Tensors beyond the tolerance whose steps are given to ONNX Runtime with the page's inputs."""


def diff(
    model: ModelOnPage, name: str = "", on_phase: OnPhase = quiet, tolerance: float = TOLERANCE
) -> Diff:
    """Compare tensors of the open model, with the kernels that it runs now.

    Parameters
    ----------
    name
        Of a tensor, a step or an ONNX node: only what belongs to it is compared; all that can
        be compared without one.

    Raises
    ------
    UserError
        When no model is open, nothing has that name, nothing can be compared, ONNX Runtime
        cannot run the model, or it was cancelled.
    PageError, CompileError
    """
    page = model.page
    with (
        page.cancellable("The comparison", on_phase) as phase,
        page.compiler_killed_on_cancel(),
    ):
        if not model.registered:
            model.register_best(phase)
        phase("starting native ONNX Runtime")
        nodes = page.process.open_reference(model.current.path)
        return diff_tensors(model, nodes, name, phase, tolerance)


def output_errors(
    model: ModelOnPage, inputs: Feeds, outputs: Mapping[str, NDArray[Any]]
) -> dict[str, float]:
    """The largest error of each output of a run, relative to the largest magnitude that native
    ONNX Runtime's has for these inputs.

    Raises
    ------
    UserError
        When ONNX Runtime cannot run the model.
    """
    process = model.page.process
    process.open_reference(model.current.path)
    wanted = process.reference_tensors(inputs, list(outputs))
    return {name: largest_error(got, wanted[name]) for name, got in outputs.items()}


def diff_tensors(
    model: ModelOnPage,
    nodes: Sequence[tuple[str, tuple[str, ...]]],
    name: str = "",
    on_phase: OnPhase = quiet,
    tolerance: float = TOLERANCE,
) -> Diff:
    """Compare what the page computes with what these nodes of the ONNX file do."""
    graph, process = model.current.graph, model.page.process
    reference = {t for _, outputs in nodes for t in outputs}
    ours = list(_tensors(graph, model.current.plan))
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
        values = list(_page_tensors(model, group))
        group = list(map(_as_long_as, group, values))
        got = dict(zip((t.spec.name for t in group), values, strict=True))
        wanted = {t.spec.name: _parts(t.spec.name, reference) for t in group}
        expected = process.reference_tensors(
            model.feeds, [part for parts in wanted.values() for part in parts]
        )
        for tensor in group:
            found = _joined([expected[part] for part in wanted[tensor.spec.name]], tensor.spec)
            if found.size != tensor.spec.size:
                why = f"its shape is {found.shape} in ONNX Runtime, {tensor.spec.shape} here"
                missing.append(Missing(tensor.spec.name, tensor.node.name, "shape", why))
            else:
                rows.append(compare(tensor, got[tensor.spec.name], found))
    rows = [replace(row, output=row.tensor in graph.outputs) for row in rows]
    beyond = [row for row in rows if not row.max_rel <= tolerance][:CHECKED_AGAIN]
    if beyond:
        on_phase(f"asking ONNX Runtime about {len(beyond)} steps with the page's inputs")
        by_name = {t.spec.name: t for t in ours}
        same = {row.tensor for row in beyond if _agrees(model, by_name, reference, row, tolerance)}
        same |= _as_sensitive(model, rows, [r for r in beyond if r.tensor not in same], reference)
        rows = [replace(row, inherited=row.tensor in same) for row in rows]
    return Diff(graph.name, tolerance, tuple(sorted(rows, key=rank)), tuple(missing))


@dataclass(frozen=True)
class TensorValues:
    """A tensor of the last run with the open model's inputs, and what ONNX Runtime has for it."""

    name: str
    node: str
    """The step that computes it; empty for an input of the model."""
    values: NDArray[Any]
    reference: NDArray[Any] | None = None
    difference: TensorDiff | None = None
    why: str = ""
    """Why there is no reference."""


def tensor(model: ModelOnPage, name: str, on_phase: OnPhase = quiet) -> TensorValues:
    """Run the open model once and fetch a tensor, with its reference where there is one.

    Parameters
    ----------
    name
        Of a tensor: an input, or what a step computes.

    Raises
    ------
    UserError
        When no model is open, no step computes that tensor, or it was cancelled.
    PageError, CompileError
    """
    if name in model.current.graph.inputs:
        return TensorValues(name, "", model.feeds[name], why="it is an input")
    page = model.page
    with page.cancellable("The tensor", on_phase) as phase, page.compiler_killed_on_cancel():
        if not model.registered:
            model.register_best(phase)
        placed = {t.spec.name: t for t in _tensors(model.current.graph, model.current.plan)}
        if name not in placed:
            raise UserError(f"No step leaves the tensor {name!r} behind.", "Choose another one.")
        found = placed[name]
        phase(f"fetching {name}")
        (values,) = _page_tensors(model, [found])
        found = _as_long_as(found, values)
        try:
            phase("asking native ONNX Runtime")
            nodes = page.process.open_reference(model.current.path)
            parts = _parts(name, {t for _, outputs in nodes for t in outputs})
            if not parts:
                why = "the ONNX file has no such tensor"
                return TensorValues(name, found.node.name, values, why=why)
            expected = page.process.reference_tensors(model.feeds, parts)
        except UserError as error:
            if page.cancelled:
                raise
            return TensorValues(name, found.node.name, values, why=error.error)
    wanted = _joined([expected[part] for part in parts], found.spec)
    if wanted.size != values.size:
        why = f"its shape is {wanted.shape} in ONNX Runtime"
        return TensorValues(name, found.node.name, values, why=why)
    row = compare(found, values, wanted)
    reference = wanted.reshape(values.shape)
    return TensorValues(name, found.node.name, values, reference, row)


def _agrees(
    model: ModelOnPage,
    ours: Mapping[str, Placed],
    reference: set[str],
    row: TensorDiff,
    tolerance: float,
) -> bool:
    """Whether ONNX Runtime computes the same from the inputs that the step had in the page.

    Where an input has no counterpart in the ONNX file nobody can say: that counts as no.
    """
    tensor = ours[row.tensor]
    inputs = [ours[name] for name in tensor.node.inputs if name in ours]
    names = [t.spec.name for t in inputs]
    if not names or row.tensor not in reference or not reference.issuperset(names):
        return False
    process = model.page.process
    shapes = process.reference_tensors(model.feeds, names)
    given = {
        name: held.reshape(shapes[name].shape)
        for name, t in zip(names, inputs, strict=True)
        for held in _page_tensors(model, [t])
        if held.size == shapes[name].size and held.dtype == shapes[name].dtype
    }
    if len(given) < len(names):
        return False
    expected = process.reference_tensors({**model.feeds, **given}, [row.tensor])[row.tensor]
    (got,) = _page_tensors(model, [tensor])
    return compare(tensor, got, expected).max_rel <= tolerance


def _as_sensitive(
    model: ModelOnPage, rows: Sequence[TensorDiff], beyond: Sequence[TensorDiff], names: set[str]
) -> set[str]:
    """Those whose error is as large as rounding makes it in this model.

    An error counts in units of what a relative change of the model's inputs by ``NOISE`` does to
    the same tensor in ONNX Runtime: a wrong step stands out, an ill-conditioned one does not.
    """
    draw = np.random.default_rng(7)
    noisy = {
        name: (a * (1 + NOISE * draw.uniform(-1, 1, a.shape))).astype(a.dtype)
        for name, a in model.feeds.items()
        if np.issubdtype(a.dtype, np.floating)
    }
    known = [row for row in rows if row.tensor in names]
    calm = [row for row in known if row.max_abs and row not in beyond]
    if not noisy or not beyond or len(calm) < NEIGHBOURS:
        return set()
    first = min(row.position for row in beyond)
    calm = sorted(calm, key=lambda row: abs(row.position - first))[:NEIGHBOURS]
    asked = [*calm, *(row for row in beyond if row.tensor in names)]
    tensors = [row.tensor for row in asked]
    plain = model.page.process.reference_tensors(model.feeds, tensors)
    moved = model.page.process.reference_tensors({**model.feeds, **noisy}, tensors)
    units = {
        row.tensor: row.max_abs / change if change else np.inf
        for row in asked
        for change in [float(np.max(np.abs(moved[row.tensor] - plain[row.tensor]), initial=0.0))]
    }
    limit = SPREAD * float(np.median([units[row.tensor] for row in calm]))
    return {row.tensor for row in beyond if units.get(row.tensor, np.inf) <= limit}


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


def _page_tensors(model: ModelOnPage, group: Sequence[Placed]) -> Iterator[NDArray[Any]]:
    if len(group) == 1 and group[0].spec.nbytes > PASS_BYTES:
        (tensor,) = group
        parts = [_tap(tensor, at) for at in range(0, tensor.spec.nbytes, PASS_BYTES)]
        yield _as_found(model, tensor, _array(tensor, b"".join(model.tap([p])[0] for p in parts)))
        return
    for tensor, data in zip(group, model.tap([_tap(t) for t in group]), strict=True):
        yield _as_found(model, tensor, _array(tensor, data))


def _as_found(model: ModelOnPage, tensor: Placed, room: NDArray[Any]) -> NDArray[Any]:
    """What is there of a tensor; all of it but where it is an output as long as its data says."""
    plan = model.current.plan
    port = next((p for p in plan.outputs if p.spec.name == tensor.spec.name and p.found), None)
    if port is None or port.found is None:
        return room
    last = max(i for i, step in enumerate(plan.steps) if step.op == "call")
    (count,) = model.tap([Tap(last, port.found.count, 0, DTYPE_BYTES["i64"])])
    return room[tuple(map(slice, port.cut(int(np.frombuffer(count, np.int64)[0])).shape))]


def _as_long_as(tensor: Placed, values: NDArray[Any]) -> Placed:
    return replace(tensor, spec=replace(tensor.spec, shape=values.shape))


def _tap(tensor: Placed, offset: int = 0) -> Tap:
    nbytes = min(PASS_BYTES, tensor.spec.nbytes - offset)
    return Tap(tensor.step, tensor.buffer, offset, nbytes)


def _array(tensor: Placed, data: bytes) -> NDArray[Any]:
    return np.frombuffer(data, NUMPY_DTYPES[tensor.spec.dtype]).reshape(tensor.spec.shape)
