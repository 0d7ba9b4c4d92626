"""Kernels of the open model from the inside, and which of them runs, without a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from profiles import DEVICE

from nnjit_studio.errors import UserError
from nnjit_studio.records import Kernel, KernelKey, TuningRecord
from nnjit_studio.tuner.events import Swapped
from nnjit_studio.workbench import OpenModel, Workbench
from nnjit_studio.workbench.jobs import inspect, run_kernel

SETTINGS = "x0=8,y0=4,r0=1,x1=8,y1=4,r1=16,order=nm,pack=1"


class Page:
    """Keeps what is registered."""

    def __init__(self) -> None:
        self.registered: list[Kernel] = []

    def register(self, kernels: Sequence[Kernel], only: bool = False) -> None:
        self.registered += kernels


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder = tmp_path_factory.mktemp("bench")
    made = Workbench(folder / "k.db")
    weights = folder / "w.bin"
    model = made.process.define_model("matmul:12x16x24:f32", weights)
    made.model.adopt(OpenModel.static(Path("tiny"), model))
    yield made
    made.close()


@pytest.fixture
def bench(opened: Workbench, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    opened.page.device = replace(DEVICE, threads=1)
    opened.model.registered, opened.model.chosen = True, {}
    monkeypatch.setattr(opened.page, "runner", Page())
    return opened


def key_of(bench: Workbench) -> str:
    return bench.model.current.workloads[0].key


def measured(bench: Workbench, settings: str, state: str) -> None:
    device = bench.page.connect()
    workload, tier = bench.model.current.workloads[0], device.best_tier
    key = KernelKey.of(workload, device, tier, bench.compiler.version)
    bench.database.commit_record(
        TuningRecord(
            key, workload.key, settings, state, 1.0, 9.0, (1.0, 1.0), "00" * 32, b"", (), 1, 4.0,
            "test", "", 0.1, "2026-11-21T09:30:12.125+00:00",
        )
    )  # fmt: skip


def registered(bench: Workbench) -> list[str]:
    page: Any = bench.page.runner
    return [k.settings for k in page.registered]


def test_without_settings_it_is_the_kernel_that_runs(bench: Workbench) -> None:
    found = inspect(bench.model, key_of(bench))
    assert found.settings == "default" and found.kernel is not None
    found = inspect(bench.model, key_of(bench), SETTINGS)
    assert found.settings == SETTINGS and found.usage is not None
    assert found.passes[0].name == "schedule"


def test_it_needs_a_device_and_a_candidate(bench: Workbench) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        inspect(bench.model, key_of(bench), "x0=8")
    bench.page.device = None
    with pytest.raises(UserError, match="not known yet"):
        inspect(bench.model, key_of(bench), SETTINGS)


@pytest.mark.parametrize("state", ["", "wrong"])
def test_what_was_not_found_right_does_not_run(bench: Workbench, state: str) -> None:
    if state:
        measured(bench, SETTINGS, state)
    with pytest.raises(UserError, match="Measure it first"):
        list(run_kernel(bench.model, key_of(bench), SETTINGS))
    assert registered(bench) == []


def test_a_measured_kernel_runs_and_the_default_again(bench: Workbench) -> None:
    measured(bench, SETTINGS, "slower")
    (swapped,) = run_kernel(bench.model, key_of(bench), SETTINGS)
    assert isinstance(swapped, Swapped)
    assert (swapped.candidate, swapped.gflops, swapped.from_database) == (SETTINGS, 9.0, True)
    assert inspect(bench.model, key_of(bench)).settings == SETTINGS, "it is the one that runs"
    (back,) = run_kernel(bench.model, key_of(bench), "default")
    assert isinstance(back, Swapped) and back.gflops_before == 9.0
    assert registered(bench) == [SETTINGS, "default"]
