"""The GPU engine in real Chromium, on its software adapter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import gpu_append
import gpu_journey
import pytest
from waiting import PATIENCE_S

from nnjit_studio.engine.browsers.browsers import find, is_root
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.kept_page import keep_page

LOSSES = int(os.environ.get("NNJIT_GPU_LOSSES", "2"))
"""A campaign sets more."""
BRIDGE_LOSSES = int(os.environ.get("NNJIT_GPU_LOSSES", "1"))

pytestmark = pytest.mark.chromium


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    with Hub() as hub, keep_page(hub, find("chromium"), is_root(), "software") as running:
        yield hub
        assert running.crashes == 0


def test_a_model_runs_on_the_gpu(hub: Hub, tmp_path: Path) -> None:
    gpu_journey.drive(hub, "chromium", "navigator", tmp_path)


def test_lost_devices_are_made_good(hub: Hub, tmp_path: Path) -> None:
    gpu_journey.lose(hub, "chromium", "navigator", tmp_path, LOSSES)


def test_new_rows_go_into_a_cache(hub: Hub, tmp_path: Path) -> None:
    runner = gpu_journey.runner_on(hub, "chromium", "navigator")
    hub.wait_for_page(PATIENCE_S)
    for append in gpu_append.CASES:
        gpu_append.check(runner, tmp_path, append)
    gpu_append.check_pair(runner, tmp_path)


def test_a_model_runs_over_the_bridge(hub: Hub, tmp_path: Path) -> None:
    pytest.importorskip("wgpu", reason="wgpu needs Python 3.11")
    hub.gpu.adapter = "software"
    gpu_journey.drive(hub, "chromium", "bridge", tmp_path)
    gpu_journey.lose(hub, "chromium", "bridge", tmp_path, BRIDGE_LOSSES)
