"""A browser whose page does not come; one that crashes is in test_browsers.py."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from fake_page import fake_page
from waiting import PATIENCE_S, until

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.pages.opening import open_page
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.engine.runner.kept_page import keep_page
from nnjit_studio.errors import TargetError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the browser is a shell script")


@pytest.fixture
def silent(tmp_path: Path) -> Browser:
    """Runs, opens no page, and notes each start."""
    path = tmp_path / "chromium"
    path.write_text(f"#!/bin/sh\necho start >> {tmp_path}/starts\nexec sleep 60\n")
    path.chmod(0o755)
    return Browser("chromium", "chromium", path)


def starts(browser: Browser) -> int:
    file = browser.path.with_name("starts")
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_a_browser_that_opens_no_page_is_started_again_once(
    silent: Browser, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever waits for the page hears nothing of it, and nobody counts a crash."""
    monkeypatch.setattr(browsers, "COMES_WITHIN_S", 0.5)
    before = set(threading.enumerate())
    with Hub() as hub:
        with keep_page(hub, silent, no_sandbox=True) as running:
            first = running.pid
            with pytest.raises(TargetError, match="No page connected within 3 s"):
                hub.wait_for_page(3.0)
            until(lambda: running.pid != first)
            assert running.crashes == 0
            with fake_page(hub):
                assert hub.wait_for_page(PATIENCE_S)["type"] == "hello"
            assert starts(silent) == 2
        assert "did not open its page within 0.5 s and is started again" in caplog.text
    until(lambda: set(threading.enumerate()) <= before)


def test_a_browser_whose_page_came_is_left_alone(
    silent: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()

    def after(seconds: float, look: object) -> threading.Timer:
        assert callable(look)
        timer = threading.Timer(0.0, lambda: (connected.wait(), look(), looked.set()))
        timer.daemon = True
        timer.start()
        return timer

    connected = threading.Event()
    monkeypatch.setattr(browsers, "after", after)
    with Hub() as hub, keep_page(hub, silent, no_sandbox=True) as running:
        first = running.pid
        with fake_page(hub):
            connected.set()
            assert looked.wait(PATIENCE_S)
            assert running.pid == first


def test_a_browser_that_cannot_be_started_again_is_told(
    silent: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsers, "COMES_WITHIN_S", 0.5)
    with (
        Hub() as hub,
        keep_page(hub, silent, no_sandbox=True),
        pytest.raises(TargetError, match="does not start"),
    ):
        silent.path.unlink()
        hub.wait_for_page(PATIENCE_S)


def test_a_browser_that_opens_no_page_of_a_job_is_started_again_once(
    silent: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsers, "COMES_WITHIN_S", 0.5)
    with PageServer({}) as server, open_page(server, silent, "page.html", True) as running:
        first = running.pid
        until(lambda: running.pid != first)
        until(lambda: starts(silent) == 2)
        assert server.message_within(1.0) is None, "nobody who waits hears of it"
        assert starts(silent) == 2
