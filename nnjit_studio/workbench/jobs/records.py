"""What is known already of the open model's kernels."""

from __future__ import annotations

from nnjit_studio.records import TuningRecord
from nnjit_studio.workbench.model import ModelOnPage


def records(model: ModelOnPage) -> list[TuningRecord]:
    """What the kernel database has of the model's workloads, newest first."""
    workloads = model.opened.workloads if model.opened is not None else ()
    return model.page.database.records_of(workload.key for workload in workloads)
