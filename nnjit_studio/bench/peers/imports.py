"""``nnjit bench import``: models compared with native ONNX Runtime, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.bench.options import Note
from nnjit_studio.bench.report import Table
from nnjit_studio.compiler.onnx_file.native import NO_PASSES, native_session
from nnjit_studio.errors import NnjitError
from nnjit_studio.model.feeds import session_feeds
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.inputs.roles import axes_of

TOLERANCE = 1e-3
"""Largest difference from ONNX Runtime, relative to an output's largest value."""
_MIB = 2**20


@dataclass(frozen=True)
class ImportRow:
    """One model; ``error`` says why it does not import or run, then the rest is zero."""

    model: str
    exporter: str
    opset: int
    import_s: float = 0.0
    weights_bytes: int = 0
    kernels: int = 0
    """Different kernels that the model needs."""
    steps: int = 0
    run_ms: float = 0.0
    """The last of two runs with default kernels, untuned."""
    max_error: float = 0.0
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error and self.max_error <= TOLERANCE

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def import_row(bench: Workbench, path: Path, dims: Mapping[str, int], note: Note) -> ImportRow:
    """Import a model, run it in the page with default kernels and natively, and compare.

    Models that quantise activations are compared with ONNX Runtime's unfused operators: the
    model as it is written.

    Parameters
    ----------
    dims
        Numbers for open dimensions; the others get the first size that the window offers.
    """
    import onnx

    try:  # first, for it reads a stranger's file under limits
        first = {axis.name: axis.first for axis in axes_of(bench.process.survey(path))}
    except NnjitError as e:
        return ImportRow(path.stem, "", 0, error=e.error)
    about = onnx.load(str(path), load_external_data=False)
    exporter = " ".join(filter(None, (about.producer_name, about.producer_version)))
    opset = max(o.version for o in about.opset_import if o.domain in ("", "ai.onnx"))
    stepped = any(n.op_type == "QuantizeLinear" for n in about.graph.node)
    del about
    row = ImportRow(path.stem, exporter, opset)
    # Fused, it rounds some values to the neighbouring step of the quantisation.
    passes = NO_PASSES if stepped else "ORT_ENABLE_ALL"
    session = native_session(path, passes, intra_op_num_threads=1)
    feeds = session_feeds(session, {**first, **dims})
    names = [o.name for o in session.get_outputs()]
    expected = dict(zip(names, session.run(names, feeds), strict=True))
    del session
    try:
        opened = bench.open_model(path, note, feeds)
        bench.model.register_best()
        result = bench.model.infer(runs=2)
    except NnjitError as e:
        return replace(row, error=e.error)
    return ImportRow(
        row.model,
        exporter,
        opset,
        sum(opened.import_ms.values()) / 1e3,
        opened.plan.weights_bytes,
        len(opened.workloads),
        len(opened.plan.steps),
        result.runs_ms[-1],
        max(_error(result.outputs[name], expected[name]) for name in names),
    )


def _error(got: NDArray[Any], expected: NDArray[Any]) -> float:
    """Largest difference, relative to the largest value expected; infinite on other shapes."""
    if got.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    a, b = got.astype(np.float64), expected.astype(np.float64)
    worst = float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-6))
    return worst if np.isfinite(worst) else float("inf")


def as_markdown(title: str, rows: Sequence[ImportRow]) -> str:
    """A table with one line for each model, those that fail last in their own words."""
    head = ["model", "opset", "exporter", "imports, s", "kernels", "steps", "weights, MiB"]
    head += ["run, ms", "max error"]
    lines = []
    for r in sorted(rows, key=lambda r: (bool(r.error), r.model)):
        figures = [f"{r.import_s:.1f}", str(r.kernels), str(r.steps)]
        figures += [f"{r.weights_bytes / _MIB:.1f}", f"{r.run_ms:.1f}", f"{r.max_error:.1e}"]
        told = [*[""] * 5, r.error] if r.error else figures
        lines.append([r.model, str(r.opset), r.exporter, *told])
    return (
        f"## {title}\n\n{sum(r.ok for r in rows)} of {len(rows)} import, run and match within "
        f"{TOLERANCE:g} of the largest value.\n\n{Table(head, lines).markdown()}\n"
    )
