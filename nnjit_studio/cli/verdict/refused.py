"""``nnjit compare`` of a model that our importer refuses: ONNX Runtime Web alone runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nnjit_studio.cli.common import note
from nnjit_studio.errors import ModelError
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.native_run import NodeTime
from nnjit_studio.model.survey import Obstacle
from nnjit_studio.support.tables import text_table
from nnjit_studio.verdict.measure import Effort, Visits
from nnjit_studio.verdict.peers import Peer
from nnjit_studio.verdict.result import LABELS, Verdict
from nnjit_studio.verdict.text import table
from nnjit_studio.workbench import Workbench, jobs
from nnjit_studio.workbench.inputs.values import fed
from nnjit_studio.workbench.jobs.refused import Refused, RefusedRun

Obstacles = tuple[Obstacle, ...]
SHOWN = 10
"""Nodes of each run in the text."""


def run_refused(
    bench: Workbench,
    refused: Refused,
    visits: Visits,
    peer: Peer,
    effort: Effort,
    before: list[Verdict],
    module: Path | None,
) -> RefusedRun:
    """Measure it, and tell what is done."""
    told, last = "", None
    for last in bench.run(jobs.run_refused, refused, visits, peer, effort, before, module):
        phase = last.phase or last.verdict.phase
        if phase != told:
            told = phase
            note(phase or "done")
    assert last is not None
    return last


def refused_model(
    bench: Workbench, path: Path, given: Feeds | None, refusal: ModelError
) -> Refused:
    """The file with its inputs.

    Raises
    ------
    ModelError
        The refusal, where the file is no valid model.
    UserError
        When a size is open.
    """
    try:
        survey = bench.process.survey(path)
    except ModelError:
        raise refusal from None
    why = f"{refusal.error} {refusal.hint}".strip()
    return Refused(survey, fed(survey, bench.page.importing.shapes, given), why)


def document(run: RefusedRun, obstacles: Obstacles) -> dict[str, Any]:
    """The verdict's document, with what stands in the way and the times of nodes."""
    native = run.native
    return {
        **run.verdict.to_json(),
        "obstacles": [vars(obstacle) for obstacle in obstacles],
        "nodes": {who: [vars(node) for node in nodes] for who, nodes in run.nodes.items()},
        "native": {"ms": native.ms, "nodes": [vars(n) for n in native.nodes]} if native else None,
        "native_problem": run.native_problem,
        "functions": run.functions.to_json() if run.functions else None,
        "functions_problem": run.functions_problem,
    }


def text(run: RefusedRun, obstacles: Obstacles) -> str:
    parts = [table(run.verdict)]
    if obstacles:
        rows = [(o.op, len(o.nodes), o.why) for o in obstacles]
        parts.append(text_table(("operator without a rule", "nodes", "why"), rows, left=(0, 2)))
    for who, nodes in run.nodes.items():
        parts.append(f"Nodes in {LABELS[who]}:\n{_nodes(nodes)}")
    if run.native is not None:
        parts.append(f"Nodes in native ONNX Runtime, one thread:\n{_nodes(run.native.nodes)}")
    elif run.native_problem:
        parts.append(f"Native ONNX Runtime does not run it: {run.native_problem}")
    if "turbo" not in run.nodes:
        parts.append("`nnjit turbo` makes ONNX Runtime's module faster; give it here as --runtime.")
    return "\n\n".join(parts)


def _nodes(nodes: tuple[NodeTime, ...]) -> str:
    whole = sum(node.ms for node in nodes) or 1.0
    rows = [(n.name, n.op, f"{n.ms:.3f}", f"{n.ms / whole:.1%}") for n in nodes[:SHOWN]]
    return text_table(("node", "operator", "ms", "share"), rows, left=(0, 1))
