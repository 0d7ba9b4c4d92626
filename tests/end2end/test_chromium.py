from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

import journey
import numpy as np
import pytest
import tiny
from waiting import PATIENCE_S

from nnjit_studio.engine.browsers.browsers import Browser, find, is_root, launch
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.kept_page import keep_page
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.errors import PageError, TargetError
from nnjit_studio.support.temporary import process_folder

pytestmark = pytest.mark.chromium


@pytest.fixture
def chromium() -> Browser:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    return find("chromium")  # its absence fails the test with a sentence that says so


def test_a_model_runs_in_chromium(chromium: Browser) -> None:
    with Hub() as hub:
        with launch(chromium, hub.url, no_sandbox=is_root(), on_exit=hub.report_lost) as running:
            assert ("--no-sandbox" in running.flags.split()) == is_root()
            assert "token" not in running.flags
            assert list(process_folder().glob("browser-*"))
            journey.drive(hub, "chromium")
        assert not list(process_folder().glob("browser-*"))
        with pytest.raises(PageError):
            hub.request({"type": "probe", "peak": []})


def test_a_browser_that_dies_fails_what_waits(chromium: Browser) -> None:
    with (
        Hub() as hub,
        launch(chromium, hub.url, no_sandbox=is_root(), on_exit=hub.report_lost) as running,
    ):
        hub.wait_for_page(PATIENCE_S)
        os.killpg(running.pid, signal.SIGKILL)
        with pytest.raises(PageError, match=r"closed its connection|ended by itself"):
            for _ in range(1000):
                hub.request({"type": "probe", "peak": []}, timeout_s=PATIENCE_S)


def renderers(profile: Path | None) -> list[int]:
    """Processes of pages that this profile's browser runs."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_text().replace("\0", " ")
            if "--type=renderer" in words and "--extension-process" not in words:
                group = os.getpgid(int(entry.name))
                if profile_of(group) == profile:
                    found.append(int(entry.name))
    return found


def profile_of(pid: int) -> Path | None:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        folders = [w.partition("=")[2] for w in words if w.startswith("--user-data-dir=")]
        return Path(folders[0]) if folders else None
    return None


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_a_model_goes_on_when_the_browser_or_its_page_is_killed(
    chromium: Browser, tmp_path: Path
) -> None:
    plan, weights = tiny.plan_and_weights()
    (tmp_path / "weights.bin").write_bytes(weights)
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    with Hub() as hub, keep_page(hub, chromium, is_root()) as running:
        hub.wait_for_page(PATIENCE_S)
        runner = PageRunner(hub, "chromium")
        runner.load(plan, tmp_path / "weights.bin")
        runner.register([tiny.kernel("mul")])
        expected = runner.infer({"x": x}).outputs["y"]

        def infer_through(losses: int) -> None:
            """The page may answer a few times more before it is gone."""
            deadline = time.monotonic() + PATIENCE_S
            while runner.losses < losses:
                assert time.monotonic() < deadline, "nothing was lost"
                np.testing.assert_array_equal(runner.infer({"x": x}).outputs["y"], expected)
            assert (runner.losses, running.crashes) == (losses, losses)
            used.append(profile_of(running.pid))

        used = [profile_of(running.pid)]
        os.kill(running.pid, signal.SIGKILL)
        infer_through(1)
        pages = renderers(used[-1])
        assert pages
        for page in pages:
            with contextlib.suppress(ProcessLookupError):
                os.kill(page, signal.SIGKILL)
        infer_through(2)
    assert len(set(used)) == 3
    assert not any(profile and profile.exists() for profile in used)


def test_root_is_told_about_the_flag(chromium: Browser) -> None:
    if not is_root():
        pytest.skip("the sandbox works for this user")
    with pytest.raises(TargetError, match="--no-sandbox"), launch(chromium, "about:blank"):
        raise AssertionError("started")
