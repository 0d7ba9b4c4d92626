"""Jobs that read a file and load nothing of the importer: a user waits for what they tell."""

from __future__ import annotations

from nnjit_studio.compiler.onnx_file.survey import survey
from nnjit_studio.compiler.process.handlers.registry import State, handles
from nnjit_studio.compiler.process.operations import SurveyRequest
from nnjit_studio.model.survey import Survey


@handles(SurveyRequest)
def look_at_file(state: State, request: SurveyRequest) -> Survey:
    return survey(request.path)
