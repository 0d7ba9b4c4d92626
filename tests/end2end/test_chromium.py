from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import journey
import pytest

from nnjit_studio.errors import PageError, TargetError
from nnjit_studio.link.browsers import Browser, find, is_root, launch
from nnjit_studio.link.hub import Hub

pytestmark = pytest.mark.chromium


@pytest.fixture
def chromium() -> Browser:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")
    return find("chromium")  # its absence fails the test with a sentence that says so


def profiles() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("nnjit-browser-*"))


def test_a_model_runs_in_chromium(chromium: Browser) -> None:
    before = profiles()
    with Hub() as hub:
        with launch(chromium, hub.url, no_sandbox=is_root(), on_exit=hub.report_lost) as running:
            assert ("--no-sandbox" in running.flags.split()) == is_root()
            assert "token" not in running.flags
            journey.drive(hub, "chromium")
        assert profiles() <= before
        with pytest.raises(PageError):
            hub.request({"type": "probe", "peak": []})


def test_a_browser_that_dies_fails_what_waits(chromium: Browser) -> None:
    with (
        Hub() as hub,
        launch(chromium, hub.url, no_sandbox=is_root(), on_exit=hub.report_lost) as running,
    ):
        hub.wait_for_page(60)
        os.killpg(running.pid, signal.SIGKILL)
        with pytest.raises(PageError, match=r"closed its connection|ended by itself"):
            for _ in range(1000):
                hub.request({"type": "probe", "peak": []}, timeout_s=60)


def test_a_killed_browser_is_back_and_works(chromium: Browser) -> None:
    before = profiles()
    with (
        Hub() as hub,
        launch(
            chromium,
            hub.url,
            no_sandbox=is_root(),
            on_exit=hub.report_lost,
            on_restart=hub.expect_page,
        ) as running,
    ):
        hub.wait_for_page(60)
        first = running.pid
        os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + 30
        while running.pid == first:
            assert time.monotonic() < deadline, "the browser was not started again"
            time.sleep(0.02)
        hub.wait_for_page(60)
        reply, _ = hub.request({"type": "probe", "peak": []})
        assert reply["type"] == "probed"
        assert running.crashes == 1
    assert profiles() <= before


def test_root_is_told_about_the_flag(chromium: Browser) -> None:
    if not is_root():
        pytest.skip("the sandbox works for this user")
    with pytest.raises(TargetError, match="--no-sandbox"), launch(chromium, "about:blank"):
        raise AssertionError("started")
