"""Measured devices: samples of the device experiments, and the limits that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import msgspec

from nnjit_studio.device.curves import break_point, cache_levels, register_file
from nnjit_studio.device.primitives import Effect, consistent_primitives
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.lab import is_lab

SPILL, LATENCY, READ, COPY = "spill", "latency", "read", "copy"
UNSTEADY = 0.1
"""Share by which the two best samples of a point may differ, at three quarters of the points."""
L1_BYTES = (8 * 1024, 512 * 1024)
L2_BYTES = (64 * 1024, 24 * 1024 * 1024)
"""Capacities that these caches can have; anything else is a measurement gone wrong."""


@dataclass(frozen=True)
class Curve:
    """Samples of an experiment: ``samples[i]`` belong to ``x[i]``.

    ``spill``: accumulators, GFLOP/s. ``latency``: bytes of the working set,
    ns of a hop. ``read`` and ``copy``: threads, 10^9 bytes a second.
    """

    x: tuple[int, ...]
    samples: tuple[tuple[float, ...], ...]

    def best(self, least: bool = False) -> list[float]:
        """The sample of each point that nothing disturbed."""
        pick = min if least else max
        return [pick(samples) for samples in self.samples]

    def steady(self, least: bool = False) -> bool:
        """Whether the best samples repeat; on a busy machine they do not (:data:`UNSTEADY`)."""
        gaps = []
        for samples in self.samples:
            first, second, *_ = sorted(samples, reverse=not least)
            gaps.append(max(first, second) / min(first, second) - 1)
        return sorted(gaps)[len(gaps) * 3 // 4] <= UNSTEADY


@dataclass(frozen=True)
class MeasuredDevice:
    """One run of the suite; ``seconds`` by experiment, ``operands`` of the spill kernels' step."""

    device_id: str
    target: str
    tier: str
    created: str  # ISO 8601, UTC
    cpu: str
    user_agent: str
    flags: str
    cores: int
    timer_quantum_ms: float
    peak_gflops: dict[str, float]
    versions: dict[str, str]
    operands: int
    curves: dict[str, Curve] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def steady(self) -> bool:
        """Whether the curves that limits follow from are."""
        return self.curves[SPILL].steady() and self.curves[LATENCY].steady(least=True)

    @property
    def limits(self) -> dict[str, int | None]:
        """All limits by name; None where the curve has none, or is unsteady."""
        names = ("accumulators", "vector_registers", "l1_bytes", "l2_bytes")
        return {name: getattr(self, name) for name in names}

    @property
    def accumulators(self) -> int | None:
        """The most accumulators of a step that the engine keeps in registers."""
        curve = self.curves[SPILL]
        at = break_point(curve.best()) if curve.steady() else None
        return None if at is None else curve.x[at]

    @property
    def vector_registers(self) -> int | None:
        """The register file behind accumulators and operands (``curves.register_file``)."""
        found = self.accumulators
        return None if found is None else register_file(found + self.operands)

    @property
    def l1_bytes(self) -> int | None:
        return self._cache(0, L1_BYTES)

    @property
    def l2_bytes(self) -> int | None:
        return self._cache(1, L2_BYTES)

    def bandwidth_gbs(self, curve: str) -> dict[int, float]:
        """10^9 bytes a second by threads, of ``read`` or ``copy``."""
        found = self.curves[curve]
        return dict(zip(found.x, found.best(), strict=True))

    def _cache(self, level: int, possible: tuple[int, int]) -> int | None:
        curve = self.curves[LATENCY]
        found = cache_levels(curve.x, curve.best(least=True)) if curve.steady(least=True) else []
        if level >= len(found) or not possible[0] <= found[level] <= possible[1]:
            return None
        return found[level]

    def to_json(self) -> dict[str, Any]:
        """All samples, and what the rules make of them."""
        return {**asdict(self), "limits": self.limits}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> MeasuredDevice:
        """The counterpart of :meth:`to_json`; limits are found anew.

        Raises
        ------
        ValueError
            When it is not such a document.
        """
        made = msgspec.convert(data, cls)
        if not {SPILL, LATENCY, READ, COPY} <= set(made.curves):
            raise ValueError("a curve is missing")
        for name, curve in made.curves.items():
            good = len(curve.x) == len(curve.samples) > 0
            if not good or any(len(s) < 2 or not min(s) > 0 for s in curve.samples):
                raise ValueError(f"the curve {name!r} lacks samples")
        return made


def binary_size(nbytes: int) -> str:
    """``48 KiB``, ``1.5 MiB``."""
    return f"{nbytes / 2**20:g} MiB" if nbytes >= 2**20 else f"{nbytes / 1024:g} KiB"


def with_measured(known: DeviceProfile, measured: MeasuredDevice | None) -> DeviceProfile:
    """The profile with measured limits in place of what the system tells or nobody knows.

    ``sources`` of the result says for each limit where it is from, and what
    the system says where that is something else.
    """
    if measured is None:
        return known
    limits: dict[str, Any] = {}
    sources = dict(known.sources)
    for name in ("vector_registers", "l1_bytes", "l2_bytes"):
        value = getattr(measured, name)
        if value is None:
            continue
        limits[name] = value
        before = getattr(known, name)
        shown = binary_size(before) if name.endswith("_bytes") else str(before)
        told = f"; {shown} {sources[name]}" if name in sources and before != value else ""
        sources[name] = f"measured {measured.created[:10]}{told}"
    return replace(known, **limits, sources=sources)


def fixed_primitives(devices: Sequence[MeasuredDevice]) -> dict[str, str]:
    """What all stored devices agree on, by the newest steady run of each; labs do not count."""
    newest: dict[str, MeasuredDevice] = {}
    for device in sorted(devices, key=lambda d: (d.steady, d.created)):
        if not is_lab(device.target):
            newest[device.device_id] = device
    return consistent_primitives({name: d.effects for name, d in newest.items()})
