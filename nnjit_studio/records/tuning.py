"""Tuning records: the outcome of one candidate, and the key that it is stored under."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nnjit_studio.model import Workload
from nnjit_studio.records.device import DeviceProfile


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

    ``state`` is one of ``outcomes.STATES``.
    ``speedup`` is over the incumbent of its duel, with the interval that the state follows
    from; 0 where there was no duel, or no interval, and in records of older versions. ``wasm``
    holds the kernel's bytes: of a GPU tier its document, in WGSL. ``gpu_clock`` and
    ``pipeline_ms`` are as in :class:`RunResult`. ``in_place`` tells what became of a
    duel's winner in the running model. ``note`` and ``tags`` (words, separated by spaces) are a
    person's.
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
    speedup: float = 0.0
    speedup_low: float = 0.0
    speedup_high: float = 0.0
    in_place: str = ""
