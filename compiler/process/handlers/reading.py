"""Jobs that read a file and load nothing of the importer: a user waits for what they tell."""

from __future__ import annotations

from pathlib import Path

from nnjit_studio.compiler.onnx_file import survey as reading
from nnjit_studio.compiler.process.handlers.registry import State
from nnjit_studio.model.survey import Survey


def survey(state: State, path: Path) -> Survey:
    return reading.survey(path)
