"""Scenarios of the embedded page, each in a process of its own: ``embedded_scenarios.py NAME``."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import journey
from waiting import PATIENCE_S

from nnjit_studio.engine.browsers.browsers import is_root
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.errors import PageError, TargetError, UserError
from nnjit_studio.ui.page.headless import run_with_embedded_page


def journey_works() -> None:
    with Hub() as hub:
        answer = run_with_embedded_page(
            hub, lambda: journey.drive(hub, "embedded") or "done", is_root()
        )
    assert answer == "done"
    assert [t.name for t in threading.enumerate()] == ["MainThread"]


def threads_end_with_their_model() -> None:
    def work() -> int:
        hub.wait_for_page(PATIENCE_S)
        for threads in (2, 3, 2, 4, 2):
            runner = PageRunner(hub, "embedded", timeout_s=PATIENCE_S, threads=threads)
            journey.drive_on(runner, endless=threads == 3)
        return _worker_threads_at_rest(4)  # engine and measurer, one helper each

    with Hub() as hub:
        assert run_with_embedded_page(hub, work, is_root()) == 4


def _worker_threads_at_rest(expected: int) -> int:
    """Threads of the page's workers, once those that end have ended."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        count = sum(
            name.startswith("DedicatedWorker") for pid in _renderers() for name in _threads_of(pid)
        )
        if count == expected or time.monotonic() > deadline:
            return count
        time.sleep(0.1)


def _threads_of(pid: int) -> Iterator[str]:
    """Names of a process's threads, without those that end while they are read."""
    with contextlib.suppress(OSError):  # the process itself has ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield (task / "comm").read_text()


def error_comes_through() -> None:
    def work() -> None:
        hub.wait_for_page(PATIENCE_S)
        raise UserError("The work failed.")

    with Hub() as hub:
        try:
            run_with_embedded_page(hub, work, is_root())
        except UserError as error:
            assert error.error == "The work failed."
        else:
            raise AssertionError("the error was lost")


def crash_is_reported() -> None:
    def work() -> str:
        hub.wait_for_page(PATIENCE_S)
        renderer = _renderers()
        assert renderer
        for pid in renderer:
            with contextlib.suppress(ProcessLookupError):  # a spare one may end by itself
                os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < deadline:
                hub.request({"type": "probe", "peak": []}, timeout_s=PATIENCE_S)
        except PageError as error:
            return error.error
        return "the page lives"

    with Hub() as hub:
        reason = run_with_embedded_page(hub, work, is_root())
    assert "process ended" in reason or "closed its connection" in reason, reason


def interrupt_ends_the_work() -> None:
    def work() -> None:
        hub.wait_for_page(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.3)  # busy with something else when it comes
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            hub.request({"type": "probe", "peak": []})

    with Hub() as hub:
        try:
            run_with_embedded_page(hub, work, is_root())
        except KeyboardInterrupt as error:
            assert isinstance(error.__cause__, PageError)
            assert error.__cause__.error == "cancelled"
        else:
            raise AssertionError("the interrupt was lost")


def interrupted_work_may_end_well() -> None:
    asked = threading.Event()

    def work() -> str:
        hub.wait_for_page(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.wait(PATIENCE_S)
        time.sleep(0.3)
        hub.request({"type": "probe", "peak": []})
        return "summary"

    with Hub() as hub:
        assert run_with_embedded_page(hub, work, is_root(), asked.set) == "summary"


def nothing_of_elsewhere_is_loaded() -> None:
    from PySide6.QtCore import QTimer, QUrl
    from PySide6.QtWidgets import QApplication

    from nnjit_studio.ui.page.host import EngineView
    from nnjit_studio.ui.page.process import check_sandbox, choose_platform

    check_sandbox(is_root())
    choose_platform()
    app = QApplication([])
    said: list[str] = []
    with Hub() as hub, Hub() as elsewhere:
        view = EngineView(hub.url)
        results: dict[str, object] = {}

        def tried() -> None:
            results["url"] = view.url().toString()
            view.page().runJavaScript("window.opened", finish)

        def finish(opened: object) -> None:
            results["opened"] = opened
            QTimer.singleShot(0, app.quit)

        def attempt(ok: bool) -> None:
            assert ok
            view.page().loadFinished.disconnect(attempt)
            view.page().runJavaScript("window.opened = String(window.open('about:blank'))")
            view.load(QUrl(elsewhere.url))
            QTimer.singleShot(500, tried)

        view.page_lost.connect(said.append)
        view.page().loadFinished.connect(attempt)
        view.start()
        app.exec()
        hub.close()
        view.shut_down()
        view.shut_down()
    assert results == {"url": hub.url, "opened": "null"}, results
    assert said == []


def a_page_that_cannot_load_is_reported() -> None:
    with Hub() as hub, Hub() as gone:
        gone.close()
        address = gone.url
        Hub.url = property(lambda _: address)  # type: ignore[assignment, method-assign]
        try:
            run_with_embedded_page(hub, lambda: hub.wait_for_page(PATIENCE_S), is_root())
        except TargetError as error:
            assert "could not load the page" in error.error
        else:
            raise AssertionError("a page came from nowhere")


def root_is_told_about_the_flag() -> None:
    if not is_root():
        print("SKIP: the sandbox works for this user")
        return
    with Hub() as hub:
        try:
            run_with_embedded_page(hub, lambda: None, no_sandbox=False)
        except UserError as error:
            assert "--no-sandbox" in error.hint
        else:
            raise AssertionError("it started as root with a sandbox")


def _renderers() -> list[int]:
    """Children of this process that are QtWebEngine's, but its zygotes."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/status", errors="replace") as file:
                status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
            ours = status["Name"].startswith("QtWebEngine") and _is_descendant(int(status["PPid"]))
        except (OSError, KeyError):  # it ended while it was read
            continue
        if ours:
            found.append(int(entry))
    return found


def _is_descendant(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                pid = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            return False
    return False


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    globals()[sys.argv[1]]()
    print("PASSED")
