"""The page with kernels on a GPU: the same calls, and a lost device is made good."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnjit_studio.device.gpu_constants import with_constants
from nnjit_studio.device.host import device_id
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages import replies
from nnjit_studio.engine.messages.connection import PageLost, RequestError
from nnjit_studio.engine.runner.page_runner import GPU_LOST, NO_PLANS
from nnjit_studio.engine.runner.steady_runner import MOST_LOSSES, SteadyRunner
from nnjit_studio.errors import PageError, TargetError
from nnjit_studio.model import Plan
from nnjit_studio.records import DeviceProfile, Kernel, gpu_tiers
from nnjit_studio.records.backend import SOFTWARE_SUFFIX, Backend
from nnjit_studio.records.gpu_profile import GpuProfile

GPU_MEMORY = "gpu-memory"
GPU_PRIMITIVES = "cache_shared=1,unroll=1,vectorize=1"
"""The WGSL templates' fixed primitives, in place of the Wasm ones."""


class GpuGone(PageError):
    """The GPU was lost again and again, or cannot hold the model: Wasm still runs."""


class GpuRunner(SteadyRunner):
    """A :class:`SteadyRunner` whose models and fixtures live on a GPU.

    When the device is lost, what it held is sent again and the call is repeated.

    Attributes
    ----------
    gone
        Why it was given up with the present model; None while it was not.

    Raises
    ------
    GpuGone
        From every call, after :data:`MOST_LOSSES` in a row.
    """

    def __init__(
        self,
        hub: Hub,
        engine: str,
        backend: Backend,
        flags: str = "",
        timeout_s: float = 120.0,
    ) -> None:
        super().__init__(hub, backend.target(engine), flags, timeout_s)
        self._backend = backend
        self._fields = backend.fields()
        self.gone: GpuGone | None = None

    def probe_gpu(self, peak: tuple[bytes, int]) -> DeviceProfile:
        """The adapter, with its measured peak; ``peak`` is a kernel document and its FLOPs a run.

        Raises
        ------
        TargetError
            When there is no adapter, or it is software and that was not asked for.
        """
        page = self.probe()
        header = {
            "type": "gpu_probe", "flops": peak[1], "implementation": self._backend.implementation,
        }  # fmt: skip
        with self._exclusive() as ask:
            reply, _ = ask(header, [peak[0]])
        device = gpu_device(reply, page)
        assert device.gpu is not None
        if device.gpu.is_fallback and not self._backend.software:
            raise TargetError(
                f"The only adapter of {page.target} is {device.gpu.name}.",
                "Add --gpu software to use it all the same, or use --backend wasm.",
            )
        self._peak = dict.fromkeys(device.tiers, peak)
        return device

    def load(self, plan: Plan, weights: Path, others: Mapping[str, Plan] = NO_PLANS) -> None:
        self.gone = None  # another model may fit
        super().load(plan, weights, others)

    def prepare(self, kernels: Sequence[Kernel]) -> None:
        """Have pipelines compiled beside the measuring; on software that would slow it down."""
        if self._backend.software:
            return
        header = {"type": "prepare", "kernels": [kernel.header() for kernel in kernels]}
        with contextlib.suppress(RequestError), self._exclusive() as ask:
            ask(header, [kernel.data for kernel in kernels])

    def _check_loss(self, error: PageError) -> None:
        """Also the device may be lost, under a page that is well."""
        if isinstance(error, PageLost):
            super()._check_loss(error)
        elif not isinstance(error, RequestError) or error.code not in (GPU_LOST, GPU_MEMORY):
            raise error
        elif error.code == GPU_MEMORY:
            self.gone = GpuGone(
                f"The GPU's memory does not suffice: {error.error}",
                "Close other programs that use it, or use --backend wasm.",
            )
            raise self.gone from error
        elif self._in_a_row >= MOST_LOSSES:
            self.gone = GpuGone(
                f"The GPU was lost {self._in_a_row + 1} times in a row: {error.error}",
                "Its driver may be at fault; Wasm still runs the model.",
            )
            raise self.gone from error


def gpu_device(reply: Mapping[str, Any], page: DeviceProfile) -> DeviceProfile:
    """What the page's ``gpu_probed`` tells, over what it told of itself.

    Raises
    ------
    TargetError
        When there is no adapter.
    """
    if not replies.flag(reply, "available"):
        raise TargetError(
            f"The target {page.target!r} has no WebGPU adapter: {replies.text(reply, 'reason')}",
            "`nnjit doctor` lists the adapters; --backend wasm needs none.",
        )
    told = GpuProfile(
        vendor=replies.text(reply, "vendor"),
        architecture=replies.text(reply, "architecture"),
        device=replies.text(reply, "device"),
        description=replies.text(reply, "description"),
        driver=replies.text(reply, "driver"),
        implementation=replies.text(reply, "implementation"),
        is_fallback=replies.flag(reply, "is_fallback"),
        features=replies.texts(reply, "features"),
        language_features=replies.texts(reply, "language_features"),
        limits={k: int(v) for k, v in replies.rates(reply, "limits").items()},
        subgroup_min=replies.integer(reply, "subgroup_min"),
        subgroup_max=replies.integer(reply, "subgroup_max"),
        timestamp_quantum_ns=replies.number(reply, "timestamp_quantum_ns"),
        copy_gbs=replies.number(reply, "copy_gbs"),
        dispatch_us=replies.number(reply, "dispatch_us"),
    )
    gpu = with_constants(told)
    tiers = gpu_tiers(gpu)
    peak = replies.number(reply, "peak_gflops")
    return replace(
        page,
        device_id=adapter_id(gpu),
        target=page.target + (SOFTWARE_SUFFIX if gpu.is_fallback else ""),
        tiers=tiers,
        peak_gflops=dict.fromkeys(tiers, peak) if peak > 0 else {},
        primitive_vector=GPU_PRIMITIVES,
        gpu=gpu,
    )


def adapter_id(gpu: GpuProfile) -> str:
    """16 hex digits, equal for equal adapters, whichever implementation runs them.

    Of one in software the processor is a part: it sets the speed.
    """
    facts = [gpu.vendor, gpu.architecture, gpu.device, gpu.description]
    facts += [device_id()] if gpu.is_fallback else []
    return hashlib.sha256("|".join(facts).encode()).hexdigest()[:16]
