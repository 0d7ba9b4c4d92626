"""Facts about the open model in its file and in the database."""

from __future__ import annotations

from pathlib import Path

from nnjit_studio.model.survey import Obstacle, Survey
from nnjit_studio.records import TuningRecord
from nnjit_studio.workbench.model import ModelOnPage


def onnx_attributes(model: ModelOnPage) -> dict[str, dict[str, str]]:
    """Operator (``op``) and attributes of the model's ONNX nodes, by name; any thread may ask.

    Raises
    ------
    UserError
        When the file is not there any more.
    """
    return model.page.process.onnx_attributes(model.current.path)


def records(model: ModelOnPage) -> list[TuningRecord]:
    """What the kernel database has of the model's workloads, newest first."""
    workloads = model.opened.workloads if model.opened is not None else ()
    return model.page.database.records_of(workload.key for workload in workloads)


def survey(model: ModelOnPage, path: Path) -> Survey:
    """A file's inputs and raw graph, without importing it.

    Raises
    ------
    ModelError
        When it is no valid model.
    """
    return model.page.process.survey(path)


def obstacles(model: ModelOnPage, path: Path) -> tuple[Obstacle, ...]:
    """The operators of a file that the importer has no rule for.

    Raises
    ------
    ModelError
        When it is no valid model.
    """
    return model.page.process.obstacles(path)
