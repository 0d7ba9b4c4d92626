"""The frozen records that compiler, page, tuner and database exchange."""

from nnjit_studio.records.device import PRIMITIVE_VECTOR, DeviceProfile
from nnjit_studio.records.fixture import Fixture, FixtureArg
from nnjit_studio.records.inference import Inference, Tap
from nnjit_studio.records.kernel import CompileResult, Kernel
from nnjit_studio.records.measuring import (
    MeasurePolicy,
    Pulse,
    RateItem,
    RateRequest,
    RunResult,
    Trial,
)
from nnjit_studio.records.tiers import GPU_TIERS, PACKED_WORDS, TIERS, code_of, gpu_tiers
from nnjit_studio.records.tuning import KernelKey, TuningRecord

__all__ = [
    "GPU_TIERS",
    "PACKED_WORDS",
    "PRIMITIVE_VECTOR",
    "TIERS",
    "CompileResult",
    "DeviceProfile",
    "Fixture",
    "FixtureArg",
    "Inference",
    "Kernel",
    "KernelKey",
    "MeasurePolicy",
    "Pulse",
    "RateItem",
    "RateRequest",
    "RunResult",
    "Tap",
    "Trial",
    "TuningRecord",
    "code_of",
    "gpu_tiers",
]
