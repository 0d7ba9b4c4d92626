"""Findings of the device experiments, as JSON and as a table for people."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnjit_studio.device.measured import COPY, LATENCY, READ, SPILL, MeasuredDevice, binary_size
from nnjit_studio.device.primitives import PRIMITIVES, preference
from nnjit_studio.records import DeviceProfile
from nnjit_studio.support.tables import text_table

BAR = 32
"""Characters of the longest bar."""
BUSY = "unsteady samples, so nothing is concluded: measure again on a quiet machine"


def device_json(
    measured: MeasuredDevice, device: DeviceProfile, fixed: Mapping[str, str]
) -> dict[str, Any]:
    """All samples, limits with their sources, and what the device prefers.

    Parameters
    ----------
    device
        The profile that sessions use from now on.
    fixed
        Primitives that all stored devices agree on.
    """
    return {
        **measured.to_json(),
        "in_use": {
            name: {"value": getattr(device, name), "source": source_of(device, name)}
            for name in ("vector_registers", "l1_bytes", "l2_bytes")
        },
        "preferred": {p.name: preference(p, measured.effects) for p in PRIMITIVES},
        "fixed": dict(fixed),
        "primitive_vector": device.primitive_vector,
    }


def source_of(device: DeviceProfile, name: str) -> str:
    """Where a limit of the profile is from."""
    return device.sources.get(name, "assumed")


def device_text(measured: MeasuredDevice, device: DeviceProfile, fixed: Mapping[str, str]) -> str:
    """The same for people, with a bar for every point."""
    took = sum(measured.seconds.values())
    where = f"{measured.cpu}, {measured.cores} cores; {measured.target}, {measured.tier}"
    agreed = ", ".join(f"{name}={setting}" for name, setting in fixed.items())
    rows = [
        ("device", f"{where}; measured in {took:.1f} s"),
        ("registers", registers_text(measured)),
        ("", _in_use(device, "vector_registers", str)),
        *_bars("accumulators", "GFLOP/s", measured, SPILL, str, least=False),
        ("caches", caches_text(measured)),
        ("", _in_use(device, "l1_bytes", binary_size, "L1 ")),
        ("", _in_use(device, "l2_bytes", binary_size, "L2 ")),
        *_bars("working set", "ns a hop", measured, LATENCY, binary_size, least=True),
        ("memory", bandwidth_text(measured)),
        ("primitives", "speed compared with the setting in force, on a common matmul"),
        *_effects(measured),
        ("fixed", agreed or "nothing: at least two devices have to agree"),
        ("vector", device.primitive_vector),
    ]
    return text_table(("", ""), rows, left=(0, 1))


def registers_text(measured: MeasuredDevice) -> str:
    """The spill point in words."""
    if not measured.curves[SPILL].steady():
        return BUSY
    if measured.accumulators is None:
        return "no spill point was found: the rate falls nowhere for good"
    return (
        f"{measured.accumulators} accumulators and {measured.operands} operands without a spill: "
        f"a file of {measured.vector_registers} vectors"
    )


def caches_text(measured: MeasuredDevice) -> str:
    """Both capacities in words."""
    if not measured.curves[LATENCY].steady(least=True):
        return BUSY
    found = (("L1", measured.l1_bytes), ("L2", measured.l2_bytes))
    return ", ".join(f"{n} {binary_size(b) if b else 'not found'}" for n, b in found)


def bandwidth_text(measured: MeasuredDevice) -> str:
    """Streaming rates in words."""
    read, copy = measured.bandwidth_gbs(READ), measured.bandwidth_gbs(COPY)
    return "; ".join(
        f"read {read[n]:.1f} GB/s, copy {copy[n]:.1f} GB/s on {n} thread{'s' * (n > 1)}"
        for n in read
    )


def _in_use(device: DeviceProfile, name: str, unit: Callable[[int], str], label: str = "") -> str:
    return f"in use: {label}{unit(getattr(device, name))} ({source_of(device, name)})"


def _below(table: str) -> list[tuple[str, str]]:
    """Lines of a table behind an empty label."""
    return [("", line) for line in table.splitlines()]


def _bars(
    x: str, y: str, measured: MeasuredDevice, curve: str, unit: Callable[[int], str], least: bool
) -> list[tuple[str, str]]:
    found = measured.curves[curve]
    values = found.best(least)
    rows = [
        (unit(place), f"{value:.1f}", _bar(value, values))
        for place, value in zip(found.x, values, strict=True)
    ]
    return _below(text_table((x, y, ""), rows, left=(2,)))


def _bar(value: float, values: Sequence[float]) -> str:
    """``value`` compared with the largest of ``values``, in characters."""
    return "#" * max(1, round(BAR * value / max(values)))


def _effects(measured: MeasuredDevice) -> list[tuple[str, str]]:
    largest = [e.speedup for e in measured.effects if not e.error] or [1.0]
    rows = []
    for primitive in PRIMITIVES:
        prefers = preference(primitive, measured.effects)
        for effect in (e for e in measured.effects if e.primitive == primitive.name):
            head = (primitive.name, effect.setting, primitive.settings[0])
            if effect.error:
                rows.append((*head, "", effect.error))
                continue
            span = (
                "the same bytes" if effect.same_bytes else f"{effect.low:.2f} to {effect.high:.2f}"
            )
            star = " *" if effect.setting == prefers else ""
            verdict = f"{_bar(effect.speedup, largest)} {effect.verdict}{star}"
            rows.append((*head, f"{effect.speedup:.2f}", f"{span:<15} {verdict}"))
    titles = ("primitive", "setting", "in force", "speed", "95 % interval")
    return _below(text_table(titles, rows, left=(0, 4)))
