"""The frozen records that compiler, page, tuner and database exchange."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.model import Workload
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, settings_of
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import PEAK_FACTORS

TIERS = ("simd128", "relaxed-simd")
GPU_TIERS = ("wgsl", "wgsl-subgroups")
"""Tiers of kernels in WGSL; a tier names the backend of its kernels."""
PACKED_WORDS = "packed_4x8_integer_dot_product"
"""The feature of WGSL that kernels of the second tier may need, beside subgroups."""


def gpu_tiers(gpu: GpuProfile) -> tuple[str, ...]:
    """The tiers whose kernels an adapter runs."""
    whole = "subgroups" in gpu.features and PACKED_WORDS in gpu.language_features
    return GPU_TIERS if whole else GPU_TIERS[:1]


def code_of(tier: str) -> str:
    """What kernels of a tier are written in: ``Wasm`` or ``WGSL``."""
    return "WGSL" if tier in GPU_TIERS else "Wasm"


PRIMITIVE_VECTOR = "cache_read=0,cache_write=1,unroll=1,vectorize=1"
"""Web-consistent primitives, fixed (paper section 5.1), before anything was measured."""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel of one tier.

    Attributes
    ----------
    data
        The Wasm module. It exports ``run(pointers..., begin, end)`` and
        imports ``env.memory`` alone. Of a GPU tier: the kernel document, see
        ``docs/webgpu.md``.
    panels
        ``(argument index, panel width)`` for each weight that it wants in
        panels; every other argument is row-major.
    parallel_extent
        The trip count of the outermost loop: ``run`` covers ``begin..end`` of
        it, and ``0..parallel_extent`` is the whole kernel.
    """

    workload: str
    candidate: AnyCandidate | None
    tier: str
    data: bytes
    sha256: str
    panels: tuple[tuple[int, int], ...] = ()
    parallel_extent: int = 1

    @property
    def settings(self) -> str:
        return settings_of(self.candidate)

    def header(self) -> dict[str, Any]:
        """Everything but the bytes, as JSON: what travels beside them."""
        return {
            "workload": self.workload,
            "settings": self.settings,
            "tier": self.tier,
            "sha256": self.sha256,
            "panels": [list(p) for p in self.panels],
            "parallel_extent": self.parallel_extent,
        }

    @classmethod
    def from_header(cls, header: dict[str, Any], data: bytes) -> Kernel:
        settings = header["settings"]
        return cls(
            header["workload"],
            None if settings == DEFAULT_SETTINGS else parse_candidate(settings),
            header["tier"],
            data,
            header["sha256"],
            tuple((p[0], p[1]) for p in header["panels"]),
            header["parallel_extent"],
        )


@dataclass(frozen=True)
class CompileResult:
    """A kernel in every tier asked for, or the reason why there is none.

    ``ms`` is from settings to bytes, mean of the tiers; ``pass_ms`` splits it
    by the names in the one list of passes.
    """

    workload: str
    candidate: AnyCandidate | None
    kernels: tuple[Kernel, ...] = ()
    ms: float = 0.0
    pass_ms: dict[str, float] = field(default_factory=dict)
    error: str = ""

    def kernel(self, tier: str) -> Kernel:
        return next(k for k in self.kernels if k.tier == tier)


@dataclass(frozen=True)
class FixtureArg:
    """One kernel argument of a fixture; ``data`` is None for outputs and workspaces."""

    role: str  # "input" | "output" | "workspace"
    dtype: str
    nbytes: int
    data: bytes | None = None
    pack: tuple[int, int] | None = None


@dataclass(frozen=True)
class Fixture:
    """Seeded inputs of a workload with its float64 reference.

    Attributes
    ----------
    expected, bound
        For each output, flattened: the reference rounded to float32 (or the
        exact integers) and the largest accepted ``|got - expected|`` of each
        element. The bound grows with the depth of the reduction.
    """

    workload: str
    args: tuple[FixtureArg, ...]
    expected: tuple[NDArray[Any], ...]
    bound: tuple[NDArray[np.float32], ...]


@dataclass(frozen=True)
class MeasurePolicy:
    """How samples are taken (design section 6).

    A sample is a batch of runs that lasts at least ``min_sample_ms`` and
    ``min_quanta`` quanta of the page's timer. Challenger and incumbent are
    interleaved ABBA, ``pairs`` samples each. With ``digest`` the result says
    what the outputs were, bit by bit.
    """

    pairs: int = 6
    min_sample_ms: float = 5.0
    min_quanta: int = 20
    warmup_ms: float = 30.0
    early_stop_ratio: float = 3.0
    max_ms: float = 4000.0
    digest: bool = False


@dataclass(frozen=True)
class RateItem:
    """A kernel ``run(begin, end)`` to be timed.

    Attributes
    ----------
    kernel
        Index among the modules sent.
    extent
        Iterations of a call; 0 for as many as are timed well.
    threads
        1, or as many as every other item with threads.
    chain_bytes
        Length of the closed walk of addresses that it follows, 0 for none.
    """

    kernel: int
    extent: int = 0
    threads: int = 1
    chain_bytes: int = 0


@dataclass(frozen=True)
class RateRequest:
    """Kernels timed side by side, round by round, on one zeroed memory."""

    items: tuple[RateItem, ...]
    memory_bytes: int = 1 << 16
    rounds: int = 5
    sample_ms: float = 2.0
    warmup_ms: float = 30.0


@dataclass(frozen=True)
class RunResult:
    """What the page measured for a challenger beside the incumbent.

    Attributes
    ----------
    samples_ms, incumbent_ms
        Milliseconds of one run, one entry a sample, in order of time.
    error_ratio
        Largest ``|got - expected| / bound`` over all outputs: at most 1 is
        right. NaN counts as infinite unless the reference is NaN there.
    guard_ok
        False when the kernel wrote outside its outputs and workspaces.
    digest
        SHA-256 of all outputs, empty unless the policy asked for it.
    gpu_clock
        Of a GPU kernel: ``timestamp`` or ``wall``, by which it was timed.
    pipeline_ms
        Of a GPU kernel: what the implementation took to compile its WGSL.
    late_ms, total_ms
        Of a GPU kernel: waiting after the GPU had finished, and the whole measurement.
    error
        Empty, or why there are no samples.
    """

    workload: str
    settings: str
    tier: str
    samples_ms: tuple[float, ...] = ()
    incumbent_ms: tuple[float, ...] = ()
    batch: int = 0
    error_ratio: float = float("inf")
    guard_ok: bool = False
    stopped_early: bool = False
    instantiate_ms: float = 0.0
    digest: str = ""
    error: str = ""
    gpu_clock: str = ""
    pipeline_ms: float = 0.0
    late_ms: float = 0.0
    total_ms: float = 0.0


@dataclass(frozen=True)
class Pulse:
    """One look at a fixed kernel and at what surrounds the page.

    ``gflops`` is the peak kernel's on one thread, the median of a few samples;
    ``on_battery`` is None where the browser does not tell.
    """

    gflops: float
    hidden: bool = False
    on_battery: bool | None = None


@dataclass(frozen=True)
class Inference:
    """Outputs of the last run; total ms of every run; of every step, if asked for, the median
    ms, the threads, the IQR, and the chunks that each thread took, the caller first.
    """

    outputs: dict[str, NDArray[Any]]
    runs_ms: tuple[float, ...]
    steps_ms: tuple[float, ...] = ()
    steps_threads: tuple[int, ...] = ()
    steps_iqr_ms: tuple[float, ...] = ()
    steps_chunks: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Tap:
    """``nbytes`` of a plan's buffer at ``offset``, as they are right after a step ran.

    Attributes
    ----------
    step
        Index among the plan's steps.
    buffer
        Index among the plan's buffers.
    """

    step: int
    buffer: int
    offset: int
    nbytes: int


@dataclass(frozen=True)
class DeviceProfile:
    """What is known of the device and of the target that runs the page.

    Registers are 128-bit vector registers that the engine can really use;
    capacities are bytes per core; the peak is one thread's best measured
    multiply-add rate, by tier. A kernel runs on at most ``threads`` threads.
    ``sources`` says where registers and capacities are from, by name of the
    field; what is not in it is assumed. ``primitive_vector`` names the
    primitives that are fixed (:mod:`nnjit_studio.device.primitives`).

    With ``gpu`` the kernels are WGSL: tiers and peaks are the adapter's, of the
    whole GPU, and ``device_id`` is its own.
    """

    device_id: str
    target: str
    user_agent: str = ""
    flags: str = ""
    cores: int = 1
    vector_registers: int = 16
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024
    timer_quantum_ms: float = 0.1
    tiers: tuple[str, ...] = ("simd128",)
    peak_gflops: dict[str, float] = field(default_factory=dict)
    cross_origin_isolated: bool = False
    threads: int = 1
    sources: dict[str, str] = field(default_factory=dict)
    primitive_vector: str = PRIMITIVE_VECTOR
    gpu: GpuProfile | None = None

    @property
    def label(self) -> str:
        """The target with its threads, such as ``embedded/2t``: what a measurement belongs to."""
        return self.target if self.threads == 1 else f"{self.target}/{self.threads}t"

    def peak(self, tier: str, kind: str = "") -> float | None:
        """Limit of a kind of workload: GFLOP/s of all threads together, None if not probed."""
        one = self.peak_gflops.get(tier)
        return None if one is None else one * self.threads * PEAK_FACTORS.get(kind, 1.0)

    @property
    def best_tier(self) -> str:
        if self.gpu is not None:
            return next(t for t in reversed(GPU_TIERS) if t in self.tiers)
        return "relaxed-simd" if "relaxed-simd" in self.tiers else "simd128"


@dataclass(frozen=True)
class KernelKey:
    """Everything that changes a kernel's code or its speed, but the settings.

    The paper's index is (t, s, rho, id): kernel type, shape, primitive
    vector, device (section 5.3); the rest keeps stale entries apart.
    """

    kind: str
    dims: str
    dtype: str
    layout: str
    fingerprint: str
    primitive_vector: str
    device_id: str
    target: str
    tier: str
    compiler_version: str

    @property
    def threads(self) -> int:
        """How many the kernel was measured on: the end of :attr:`DeviceProfile.label`."""
        count = re.search(r"/(\d+)t$", self.target)
        return int(count[1]) if count else 1

    @classmethod
    def of(
        cls, workload: Workload, device: DeviceProfile, tier: str, compiler_version: str
    ) -> KernelKey:
        return cls(
            kind=workload.kind,
            dims="x".join(map(str, workload.dims)),
            dtype=workload.dtype,
            layout="+".join(("row-major", *workload.epilogue)),
            fingerprint=workload.fingerprint,
            primitive_vector=device.primitive_vector,
            device_id=device.device_id,
            target=device.label,
            tier=tier,
            compiler_version=compiler_version,
        )


@dataclass(frozen=True)
class TuningRecord:
    """One candidate's outcome, good or bad, as the database keeps it.

    ``state`` is one of ``won``, ``slower``, ``wrong``, ``impossible``,
    ``failed``, ``duplicate``, ``default``. ``wasm`` holds the kernel's bytes: of
    a GPU tier its document, in WGSL. ``gpu_clock`` and ``pipeline_ms`` are as in
    :class:`RunResult`. ``note`` and ``tags`` (words, separated by spaces) are a person's.
    """

    key: KernelKey
    workload: str
    settings: str
    state: str
    median_ms: float
    gflops: float
    samples_ms: tuple[float, ...]
    sha256: str
    wasm: bytes
    panels: tuple[tuple[int, int], ...]
    parallel_extent: int
    compile_ms: float
    browser: str
    flags: str
    timer_quantum_ms: float
    created: str  # ISO 8601, UTC
    error: str = ""
    gpu_clock: str = ""
    pipeline_ms: float = 0.0
    note: str = ""
    tags: str = ""
