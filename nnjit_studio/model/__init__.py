"""Graph, workloads and plan: the vocabulary of all rooms."""

from nnjit_studio.model.generation import Generated, Generation, GenerationRequest, Sampling, Token
from nnjit_studio.model.given_shapes import GivenShapes
from nnjit_studio.model.graph import (
    DTYPE_BYTES,
    NUMPY_DTYPES,
    Graph,
    GraphPass,
    Node,
    TensorSpec,
    Workload,
)
from nnjit_studio.model.import_options import ImportOptions
from nnjit_studio.model.plan import (
    ALIGNMENT_BYTES,
    PLAN_VERSION,
    Append,
    FoundAxis,
    Plan,
    PlanBuffer,
    PlanPort,
    PlanStep,
)

__all__ = [
    "ALIGNMENT_BYTES",
    "DTYPE_BYTES",
    "NUMPY_DTYPES",
    "PLAN_VERSION",
    "Append",
    "FoundAxis",
    "Generated",
    "Generation",
    "GenerationRequest",
    "GivenShapes",
    "Graph",
    "GraphPass",
    "ImportOptions",
    "Node",
    "Plan",
    "PlanBuffer",
    "PlanPort",
    "PlanStep",
    "Sampling",
    "TensorSpec",
    "Token",
    "Workload",
]
