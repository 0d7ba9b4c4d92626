"""The workbench and what was measured of its device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from device_fakes import effects, measured_device

from nnjit_studio.device.host import device_id, host_profile
from nnjit_studio.errors import PageError, UserError
from nnjit_studio.records import PRIMITIVE_VECTOR
from nnjit_studio.records.backend import WASM
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.workbench import Workbench
from nnjit_studio.workbench.jobs import device as module
from nnjit_studio.workbench.jobs import measure_device


class Page:
    """A runner that answers the probe alone."""

    backend = WASM

    def __init__(self) -> None:
        self.cancelled = 0

    def probe(self, peak: object) -> object:
        return replace(host_profile("embedded"), tiers=("simd128", "relaxed-simd"))

    def cancel(self) -> None:
        self.cancelled += 1


def opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    bench = Workbench(path)
    monkeypatch.setattr(bench.page, "runner", Page())
    monkeypatch.setattr(bench.page.hub, "wait_for_page", lambda timeout_s: {})
    monkeypatch.setattr(bench.process, "peak_kernels", lambda tiers, wide: [])
    return bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workbench]:
    made = opened(tmp_path / "k.db", monkeypatch)
    yield made
    made.close()


def test_without_a_measurement_the_system_is_believed(bench: Workbench) -> None:
    device = bench.page.connect()
    assert device.l1_bytes == host_profile().l1_bytes
    assert device.sources["vector_registers"] == "from the instruction set"
    assert device.primitive_vector == PRIMITIVE_VECTOR
    assert bench.page.measured_device() is None


def test_a_stored_measurement_of_this_device_and_target_is_used(bench: Workbench) -> None:
    bench.database.commit_device(measured_device(device_id(), target="firefox"))
    bench.database.commit_device(measured_device("b" * 16))
    assert bench.page.connect().sources["l1_bytes"] != "measured 2026-11-21"
    bench.page.device = None
    bench.database.commit_device(measured_device(device_id()))
    device = bench.page.connect()
    assert (device.l1_bytes, device.l2_bytes) == (48 << 10, 2 << 20)
    assert device.sources["l2_bytes"].startswith("measured 2026-11-21")
    assert device.primitive_vector == PRIMITIVE_VECTOR, "one device fixes nothing"


def test_measuring_stores_and_is_used_at_once(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured_device(device_id())
    monkeypatch.setattr(module.microbench, "measure_device", lambda *_, **__: found)
    assert measure_device(bench.model) == found
    assert bench.page.measured_device() == found
    assert bench.page.device is not None
    assert bench.page.device.sources["vector_registers"].startswith("measured 2026-11-21")
    assert bench.page.connect() is bench.page.device


def test_cancelling_stores_nothing(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: object, **given: object) -> None:
        bench.page.cancel()
        given["on_phase"]("caches")  # type: ignore[operator]

    monkeypatch.setattr(module.microbench, "measure_device", measure)
    with pytest.raises(UserError, match="cancelled"):
        measure_device(bench.model)
    assert bench.database.devices() == []
    assert bench.page.runner.cancelled == 1  # type: ignore[attr-defined]


def test_a_lost_page_is_no_cancelling(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: object, **__: object) -> None:
        raise PageError("The page went away.")

    monkeypatch.setattr(module.microbench, "measure_device", measure)
    with pytest.raises(PageError, match="went away"):
        measure_device(bench.model)


def test_a_pass_that_no_device_wants_is_switched_off_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "k.db"
    first = opened(path, monkeypatch)
    unwanted = effects(combined_instruction="0")
    for name in ("a" * 16, "b" * 16):
        first.database.commit_device(measured_device(name, effects=unwanted))
    assert first.compiler.passes_off == (), "from the next start on"
    workload, _ = first.process.define("matmul:12x16x24:f32")
    tile = Candidate(8, 4, 2, 8, 4, 16)
    all_passes = first.compiler.compile(workload, tile, ("simd128",)).kernel("simd128")
    first.close()
    second = opened(path, monkeypatch)
    try:
        assert second.page.fixed_primitives()["combined_instruction"] == "0"
        vector = second.page.connect().primitive_vector
        assert vector == f"{PRIMITIVE_VECTOR},combined_instruction=0"
        second.process.define("matmul:12x16x24:f32")
        kernel = second.compiler.compile(workload, tile, ("simd128",)).kernel("simd128")
        splat = bytes([0xFD, 0x09])  # v128.load32_splat
        assert splat in all_passes.data and splat not in kernel.data
    finally:
        second.close()
