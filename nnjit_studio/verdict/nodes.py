"""Times of a model's nodes in ONNX Runtime Web, as its own profiler tells them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.model.native_run import NodeTime
from nnjit_studio.verdict.case import Case
from nnjit_studio.verdict.measure import PAGE, Visits, messages, never


def node_times(
    case: Case,
    name: str,
    node_modules: Path,
    visits: Visits,
    cancelled: Callable[[], bool] = never,
) -> tuple[NodeTime, ...]:
    """Each node of one of the case's sessions, the longest first: medians of one inference.

    The case's folder is as :func:`~nnjit_studio.verdict.measure.measure` left it.

    Raises
    ------
    TargetError, PageError
        When the page does not come or fails.
    UserError
        When it was cancelled.
    """
    roots = {"files": case.folder, "node_modules": node_modules}
    with PageServer(roots) as server, visits.visit(server, f"{PAGE}?nodes={name}"):
        *_, message = messages(server, "nodes", cancelled)
    return tuple(sorted((NodeTime(**node) for node in message["nodes"]), key=lambda n: -n.ms))
