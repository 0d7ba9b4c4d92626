"""The table of the compile process's operations: how long each may take, and whose fault it is."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, get_args

from nnjit_studio.compiler.process.operations import (
    AdoptRequest,
    AttributesRequest,
    CompileRequest,
    ConfinementRequest,
    ConventionalRequest,
    DefineRequest,
    DeriveRequest,
    DeviceKernelsRequest,
    FixtureRequest,
    GpuLimitsRequest,
    GraphTextRequest,
    ImportAnySizeRequest,
    ImportGenerationRequest,
    ImportRequest,
    ImportSizesRequest,
    NativeDecoderRequest,
    NativeRunRequest,
    NativeTokensRequest,
    ObstaclesRequest,
    PeakRequest,
    ProgramRequest,
    ReferenceRequest,
    ReferenceTensorsRequest,
    Request,
    RestoreRequest,
    SurveyRequest,
    TextsRequest,
    VariantsRequest,
    WorstLayerRequest,
)
from nnjit_studio.errors import CompileError, NnjitError
from nnjit_studio.support.limits import PATIENCE, SECONDS

IMPORT_TIMEOUT_S = PATIENCE * SECONDS
COMPILE_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Operation:
    """A row of the table."""

    request: type[Request[Any]]
    handlers: str
    """The module below :mod:`.handlers` that has the function; loaded by its first job."""
    timeout_s: float = COMPILE_TIMEOUT_S
    """From the request, and from each phase, to the next message."""
    _: KW_ONLY
    lost: str = ""
    """Of a job on a stranger's model: what ended when the process died, as the subject of a
    sentence. The model is to blame then, not the Studio."""
    imports: int = 0
    """How many imports' budget it has (:mod:`nnjit_studio.compiler.onnx_file.budget`): for several
    sizes, or any, it holds several imports and a few sessions of ONNX Runtime. 0 without one."""
    raises: type[NnjitError] | None = None
    """The class of all errors of the job; without it they keep the class that was raised."""
    loads: bool = False
    """Whether it loads code or programs, which stay."""

    @property
    def reply(self) -> Any:
        """The type of the reply."""
        (base,) = self.request.__orig_bases__  # type: ignore[attr-defined]
        return get_args(base)[0]


_IMPORT, _LONG = "The import of {request.path.name!r}", IMPORT_TIMEOUT_S
_OPENING = "Opening {request.path.name!r} in native ONNX Runtime"
_READING = "Reading {request.path.name!r}"
_DERIVING = "Making another file of {request.path.name!r}"
_RUN = "The run in native ONNX Runtime"

OPERATIONS = {
    row.request.__name__: row
    for row in (
        Operation(ImportRequest, "models", _LONG, lost=_IMPORT, loads=True, imports=1),
        Operation(SurveyRequest, "reading", _LONG, lost=_READING),
        Operation(ObstaclesRequest, "models", _LONG, lost=_READING, loads=True),
        Operation(ImportGenerationRequest, "models", _LONG, lost=_IMPORT, loads=True, imports=1),
        Operation(ImportSizesRequest, "models", _LONG, lost=_IMPORT, loads=True, imports=3),
        Operation(ImportAnySizeRequest, "models", _LONG, lost=_IMPORT, loads=True, imports=3),
        Operation(GraphTextRequest, "models", _LONG, lost=_IMPORT, loads=True, imports=1),
        Operation(DefineRequest, "kernels", _LONG, loads=True),
        Operation(AdoptRequest, "kernels", loads=True),
        Operation(ProgramRequest, "kernels"),
        Operation(RestoreRequest, "kernels", _LONG, loads=True),
        Operation(ReferenceRequest, "native", _LONG, lost=_OPENING),
        Operation(ReferenceTensorsRequest, "native", _LONG, lost=_RUN),
        Operation(NativeDecoderRequest, "native", _LONG, lost=_OPENING),
        Operation(NativeTokensRequest, "native", _LONG, lost=_RUN),
        Operation(NativeRunRequest, "native", _LONG, lost=_RUN),
        Operation(AttributesRequest, "native", _LONG, lost=_READING, imports=1),
        Operation(DeriveRequest, "derived", _LONG, lost=_DERIVING, loads=True, imports=1),
        Operation(WorstLayerRequest, "derived", _LONG, lost=_RUN),
        Operation(FixtureRequest, "kernels", _LONG, raises=CompileError),
        Operation(ConventionalRequest, "kernels", _LONG, raises=CompileError, loads=True),
        Operation(CompileRequest, "kernels", raises=CompileError),
        Operation(TextsRequest, "kernels", raises=CompileError),
        Operation(DeviceKernelsRequest, "experiments", raises=CompileError),
        Operation(VariantsRequest, "experiments", raises=CompileError, loads=True),
        Operation(PeakRequest, "experiments", raises=CompileError),
        Operation(GpuLimitsRequest, "experiments", raises=CompileError),
        Operation(ConfinementRequest, "confinement"),
    )
}
"""By the name of the request's class, which is the kind of its message."""
