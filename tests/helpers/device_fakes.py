"""A measured device with limits that are known, and pages that play the experiments."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.device.measured import COPY, LATENCY, READ, SPILL, Curve, MeasuredDevice
from nnjit_studio.device.primitives import PRIMITIVES, Effect

WORKING_SETS = tuple(size for p in range(12, 25) for size in (1 << p, 3 << (p - 1)))


def spill_rate(accumulators: int, spill: int = 12) -> float:
    """GFLOP/s of an engine that keeps ``spill`` accumulators in registers."""
    broken = 1.0 if accumulators <= spill else 0.7 - 0.003 * accumulators
    return 56 * min(1.0, accumulators / 8) * broken


def hop_ns(size: int, l1: int = 48 << 10, l2: int = 2 << 20) -> float:
    return 1.5 if size <= l1 else 4.6 if size <= l2 else 34.0


def curve(x, value) -> Curve:
    return Curve(tuple(x), tuple((value(n), value(n) * 0.99, value(n) * 1.01) for n in x))


def effects(**preferred: str) -> tuple[Effect, ...]:
    """Every setting in force wins but for those given; ``""`` for no difference."""
    made = []
    for primitive in PRIMITIVES:
        wanted = preferred.get(primitive.name, primitive.settings[0])
        for setting in primitive.settings[1:]:
            speed = 1.0 if not wanted else 1.2 if setting == wanted else 0.8
            made.append(Effect(primitive.name, setting, speed, speed - 0.02, speed + 0.02))
    return tuple(made)


def measured_device(device_id: str = "a" * 16, **changes) -> MeasuredDevice:
    made = MeasuredDevice(
        device_id, "embedded", "relaxed-simd", "2026-11-21T09:30:12.125+00:00", "Some Processor",
        "QtWebEngine 6.12", "", 2, 0.005, {"relaxed-simd": 55.0}, {"compiler": "4"}, 3,
        {
            SPILL: curve(range(4, 41), spill_rate), LATENCY: curve(WORKING_SETS, hop_ns),
            READ: curve((1, 2), lambda n: 11.0 * n), COPY: curve((1, 2), lambda n: 9.0 * n),
        },
        effects(), {"registers": 1.0, "primitives": 3.0},
    )  # fmt: skip
    return replace(made, **changes)
