"""What a session makes of a measured device: limits, sources, preferences, the vector."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from device_fakes import curve, effects, hop_ns, measured_device, spill_rate

from nnjit_studio.device.measured import (
    LATENCY,
    SPILL,
    Curve,
    MeasuredDevice,
    fixed_primitives,
    with_measured,
)
from nnjit_studio.device.primitives import (
    PRIMITIVES,
    Effect,
    consistent_primitives,
    passes_off,
    preference,
    primitive_vector,
)
from nnjit_studio.doctor.device_report import device_json, device_text
from nnjit_studio.model import Workload
from nnjit_studio.records import PRIMITIVE_VECTOR, DeviceProfile, KernelKey
from nnjit_studio.space import build_lite_space

K0 = Workload("matmul", (384, 768, 768), "f32", (), "f" * 12, 1, 1, True)
SYSTEM = DeviceProfile(
    "a" * 16, "embedded", l1_bytes=49152, l2_bytes=1 << 20, sources={"l2_bytes": "from the system"}
)


def with_curve(name: str, made: Curve) -> MeasuredDevice:
    device = measured_device()
    return replace(device, curves={**device.curves, name: made})


def test_the_limits_follow_from_the_curves():
    device = measured_device()
    assert (device.accumulators, device.vector_registers) == (12, 16)
    assert (device.l1_bytes, device.l2_bytes) == (48 << 10, 2 << 20)
    assert device.bandwidth_gbs("read") == {1: 11.0 * 1.01, 2: 22.0 * 1.01}
    arm = with_curve(SPILL, curve(range(4, 41), lambda n: spill_rate(n, 27)))
    assert (arm.accumulators, arm.vector_registers) == (27, 32)


def test_the_tile_that_fills_sixteen_registers_stays_in_the_space():
    known = with_measured(SYSTEM, measured_device())
    tiles = {(e.candidate.y0, e.candidate.x0) for e in build_lite_space(K0, known, True).entries}
    assert (6, 8) in tiles
    arm = with_curve(SPILL, curve(range(4, 41), lambda n: spill_rate(n, 27)))
    wide = with_measured(SYSTEM, arm)
    tiles = {(e.candidate.y0, e.candidate.x0) for e in build_lite_space(K0, wide, True).entries}
    assert (6, 8) not in tiles and (8, 8) in tiles


def test_measured_limits_replace_what_was_known_and_say_so():
    known = with_measured(SYSTEM, measured_device())
    assert (known.vector_registers, known.l1_bytes, known.l2_bytes) == (16, 48 << 10, 2 << 20)
    assert known.sources == {
        "vector_registers": "measured 2026-11-21",
        "l1_bytes": "measured 2026-11-21",
        "l2_bytes": "measured 2026-11-21; 1 MiB from the system",
    }
    assert with_measured(SYSTEM, None) is SYSTEM


def test_on_a_busy_machine_nothing_is_concluded():
    noisy = Curve(
        tuple(range(4, 41)), tuple((spill_rate(n), 0.8 * spill_rate(n)) for n in range(4, 41))
    )
    device = with_curve(SPILL, noisy)
    assert device.accumulators is None and device.vector_registers is None
    known = with_measured(SYSTEM, device)
    assert known.vector_registers == SYSTEM.vector_registers
    assert "vector_registers" not in known.sources
    assert "quiet machine" in device_text(device, known, {})


def test_capacities_that_no_cache_has_are_no_measurement():
    sizes = tuple(1 << p for p in range(8, 25))
    device = with_curve(LATENCY, curve(sizes, lambda n: hop_ns(n, 2048, 16384)))
    assert device.l1_bytes is None and device.l2_bytes is None


def test_json_gives_everything_back():
    device = measured_device()
    document = json.loads(json.dumps(device.to_json(), allow_nan=False))
    assert document["limits"]["l2_bytes"] == 2 << 20
    assert MeasuredDevice.from_json(document) == device
    del document["curves"][SPILL]
    with pytest.raises(ValueError, match="curve is missing"):
        MeasuredDevice.from_json(document)


def test_a_device_prefers_what_is_proven():
    unroll = next(p for p in PRIMITIVES if p.name == "unroll")

    def of(*speeds: float) -> str:
        made = [
            Effect("unroll", setting, s, s - 0.02, s + 0.02)
            for setting, s in zip(unroll.settings[1:], speeds, strict=False)
        ]
        return preference(unroll, made)

    assert of(0.7, 0.8, 0.9) == "4", "every other setting is slower"
    assert of(0.7, 1.1, 1.2) == "8", "the fastest of the faster ones"
    assert of(0.7, 1.0, 0.9) == "", "one is even"
    assert of(0.7, 0.8) == "", "one was not measured"
    failed = [Effect("unroll", s, error="failed") for s in unroll.settings[1:]]
    assert preference(unroll, failed) == ""


def test_a_small_or_unproven_difference_is_none():
    assert Effect("order", "mn", 1.02, 1.01, 1.03).verdict == "even"
    assert Effect("order", "mn", 1.2, 0.9, 1.5).verdict == "even"
    assert Effect("order", "mn", 0.9, 0.85, 0.95).verdict == "slower"
    assert Effect("order", "mn", 1.1, 1.05, 1.15).verdict == "faster"


def test_primitives_are_fixed_where_all_devices_agree():
    assert consistent_primitives({"one": effects()}) == {}, "one device is no evidence"
    agreed = consistent_primitives({"one": effects(order=""), "two": effects(unroll="8")})
    assert "order" not in agreed, "one device has no preference"
    assert "unroll" not in agreed, "they disagree"
    assert agreed["cache_read"] == "0" and agreed["relaxed_madd"] == "1"


def test_the_newest_run_of_each_device_counts_and_labs_do_not():
    old = measured_device("a" * 16, created="2026-01-01T00:00:00", effects=effects(order="mn"))
    new = measured_device("a" * 16)
    lab = measured_device("c" * 16, target="embedded+revectorize", effects=effects(order="mn"))
    assert fixed_primitives([new, old, lab]) == {}
    both = fixed_primitives([new, measured_device("b" * 16), old, lab])
    assert both["order"] == "nm"


def test_the_vector_changes_only_when_a_fixed_setting_changes_code():
    agreed = consistent_primitives({"one": effects(), "two": effects()})
    assert set(agreed) == {p.name for p in PRIMITIVES}
    assert primitive_vector(agreed) == primitive_vector({}) == PRIMITIVE_VECTOR
    other = {name: effects(cache_read="1", order="mn") for name in ("one", "two")}
    assert primitive_vector(consistent_primitives(other)) == PRIMITIVE_VECTOR
    without = {name: effects(offset_load_store="0") for name in ("one", "two")}
    fixed = consistent_primitives(without)
    assert passes_off(fixed) == ("offset_load_store",)
    assert primitive_vector(fixed) == f"{PRIMITIVE_VECTOR},offset_load_store=0"


def test_the_key_of_a_kernel_holds_the_vector_of_its_device():
    key = KernelKey.of(K0, SYSTEM, "relaxed-simd", "4")
    assert key.primitive_vector == PRIMITIVE_VECTOR
    measured = with_measured(SYSTEM, measured_device())
    assert KernelKey.of(K0, measured, "relaxed-simd", "4") == key, "records stay known"


def test_the_report_says_all_of_it():
    device = measured_device()
    known = with_measured(SYSTEM, device)
    text = device_text(device, known, {"order": "nm"})
    for line in (
        "12 accumulators and 3 operands without a spill: a file of 16 vectors",
        "L1 48 KiB, L2 2 MiB",
        "in use: L2 2 MiB (measured 2026-11-21; 1 MiB from the system)",
        "read 22.2 GB/s, copy 18.2 GB/s on 2 threads",
        "order=nm",
    ):
        assert line in text
    document = json.loads(json.dumps(device_json(device, known, {}), allow_nan=False))
    assert document["preferred"]["cache_read"] == "0"
    assert document["in_use"]["l1_bytes"]["value"] == 48 << 10
