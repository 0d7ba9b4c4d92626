"""A page that crashes and comes back: what it held is sent again, calls go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_page import FakePage, Line
from test_gpu_runner import FEEDS, FIXTURE, MEASURED, PLAN
from waiting import PATIENCE_S, until

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.connection import PageLost
from nnjit_studio.engine.runner import recovery
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.engine.runner.recovery import MOST_LOSSES, Recovery
from nnjit_studio.errors import PageError
from nnjit_studio.records import Kernel, MeasurePolicy
from nnjit_studio.records.candidate import Candidate

KERNELS = [
    Kernel("copy", Candidate(4, 4, 1, 16, 16, 8), "simd128", b"\0asm", "ab"),
    Kernel("other", None, "simd128", b"\0asm2", "cd"),
]


class Browser:
    """Opens a page, and another one whenever that closes; ``deadly`` requests close it."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.deadly: list[str] = []
        self.pages: list[list[str]] = []
        self.comes = True
        self.gate = threading.Event()
        self.gate.set()
        self._pages: list[FakePage] = []
        self._dying = threading.Lock()
        hub.expect_page()
        self.open()

    def open(self) -> None:
        self.pages.append([])
        self._pages.append(FakePage(self.hub, self.answer))

    def answer(self, page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        kind = header["type"]
        self.pages[-1].append(kind)
        if self.deadly and self.deadly[0] == kind:
            self.deadly.pop(0)
            threading.Thread(target=self.crash).start()
        elif kind == "infer":
            y = {"name": "y", "dtype": "f32", "shape": [4]}
            page.reply(header, {"type": "inferred", "outputs": [y], "runs_ms": [1.0]}, [blobs[0]])
        else:
            page.reply(header, MEASURED if kind == "measure" else {"type": "ok"})

    def crash(self) -> None:
        with self._dying:
            self._pages[-1].close()
            until(lambda: self.hub._page is None)
            if self.comes:
                assert self.gate.wait(PATIENCE_S)
                self.open()
            else:
                self.hub.report_lost("The browser is given up.")
                self.hub.expect_page(False)

    def close(self) -> None:
        with self._dying:
            self._pages[-1].close()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


@pytest.fixture
def browser(hub: Hub) -> Iterator[Browser]:
    browser = Browser(hub)
    hub.wait_for_page(PATIENCE_S)
    yield browser
    browser.close()


@pytest.fixture
def runner(hub: Hub, browser: Browser, tmp_path: Path) -> PageRunner:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"12345678")
    runner = PageRunner(hub, "chromium")
    runner.load(PLAN, weights)
    runner.register(KERNELS)
    runner.set_fixture(FIXTURE)
    return runner


def test_the_next_page_gets_everything_and_the_call_goes_on(
    runner: PageRunner, browser: Browser
) -> None:
    browser.deadly = ["infer"]
    np.testing.assert_array_equal(runner.infer(FEEDS).outputs["y"], FEEDS["x"])
    assert runner.losses == 1
    assert browser.pages[1] == ["load", "weights", "register", "fixture", "infer"]


def test_a_page_that_was_lost_while_idle_gets_everything_before_the_next_call(
    hub: Hub, runner: PageRunner, browser: Browser
) -> None:
    browser.crash()
    until(lambda: hub.pages == 2)
    np.testing.assert_array_equal(runner.infer(FEEDS).outputs["y"], FEEDS["x"])
    assert browser.pages[1] == ["load", "weights", "register", "fixture", "infer"]


def test_a_page_that_crashes_while_it_is_restored_is_restored_again(
    runner: PageRunner, browser: Browser
) -> None:
    browser.deadly = ["infer", "weights"]
    np.testing.assert_array_equal(runner.infer(FEEDS).outputs["y"], FEEDS["x"])
    assert runner.losses == 2
    assert browser.pages[1:] == [
        ["load", "weights"],
        ["load", "weights", "register", "fixture", "infer"],
    ]


def test_a_crash_during_a_measurement_is_no_verdict_but_two_are(
    runner: PageRunner, browser: Browser
) -> None:
    browser.deadly = ["measure"]
    assert runner.measure(KERNELS[0], None, MeasurePolicy()).error == ""
    browser.deadly = ["measure", "measure"]
    failed = runner.measure(KERNELS[0], None, MeasurePolicy())
    assert "lost with it twice" in failed.error
    assert (failed.workload, failed.samples_ms) == ("copy", ())
    assert runner.measure(KERNELS[0], None, MeasurePolicy()).error == ""


def test_pages_that_keep_crashing_are_given_up(runner: PageRunner, browser: Browser) -> None:
    browser.deadly = ["infer"] * (MOST_LOSSES + 1)
    with pytest.raises(PageLost, match="closed its connection"):
        runner.infer(FEEDS)
    assert runner.losses == MOST_LOSSES


def test_a_call_that_ends_after_a_loss_was_made_good_leaves_it_so() -> None:
    hub: Any = SimpleNamespace(pages=1, wait_for_return=lambda timeout_s: None)
    made = Recovery(hub, lambda: None)
    made.steady(lambda: None)
    made.held.fixture = FIXTURE, None

    def overtaken() -> None:
        hub.pages = 2
        made.restore(PageLost("The page closed its connection.", ""))

    made.steady(overtaken)
    made.steady(lambda: None)
    assert made.losses == 1


def test_one_loss_under_two_threads_is_made_good_once(runner: PageRunner, browser: Browser) -> None:
    browser.deadly = ["infer"]
    with ThreadPoolExecutor(2) as pool:
        for result in pool.map(runner.infer, [FEEDS, FEEDS]):
            np.testing.assert_array_equal(result.outputs["y"], FEEDS["x"])
    assert runner.losses == 1
    assert browser.pages[1].count("load") == 1


def test_a_call_that_begins_while_a_loss_is_made_good_has_not_lost_again(
    runner: PageRunner, browser: Browser
) -> None:
    runner._recovery.lock = line = Line()  # type: ignore[assignment]
    browser.deadly = ["infer"]
    browser.gate.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(runner.infer, FEEDS)
        until(lambda: runner.losses)
        second = pool.submit(runner.infer, FEEDS)
        until(lambda: line.came == 2)
        browser.gate.set()
        for call in (first, second):
            np.testing.assert_array_equal(call.result(PATIENCE_S).outputs["y"], FEEDS["x"])
    assert runner.losses == 1
    assert browser.pages[1].count("load") == 1


def test_a_page_that_does_not_come_back_is_an_error_at_once(
    runner: PageRunner, browser: Browser
) -> None:
    browser.comes = False
    browser.deadly = ["infer"]
    with pytest.raises(PageLost, match="given up"):
        runner.infer(FEEDS)


def test_without_somebody_who_opens_pages_nothing_is_awaited(
    hub: Hub, runner: PageRunner, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "PAGE_BACK_S", 10**6)
    hub.expect_page(False)
    browser.comes = False
    browser.deadly = ["infer"]
    with pytest.raises(PageLost, match=r"closed its connection|given up"):
        runner.infer(FEEDS)


def test_waiting_for_the_next_page_can_be_cancelled(
    hub: Hub, runner: PageRunner, browser: Browser
) -> None:
    browser._pages[-1].close()
    until(lambda: hub._page is None)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(runner.infer, FEEDS)
        until(lambda: runner.losses)
        while not call.done():  # it is about to wait, and a cancel ends only what waits already
            hub.cancel()
            time.sleep(0.005)
        with pytest.raises(PageError, match="cancelled"):
            call.result()
