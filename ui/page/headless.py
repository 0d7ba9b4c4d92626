"""The embedded page without a window, for the command line and the tests."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar, cast

from PySide6.QtCore import QMessageLogContext, QTimer, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.support.interrupts import interrupts
from nnjit_studio.ui.page.host import EngineView
from nnjit_studio.ui.page.keeper import PageKeeper
from nnjit_studio.ui.page.process import check_sandbox, choose_platform

T = TypeVar("T")

_POLL_MS = 100
_QT_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def run_with_embedded_page(
    hub: Hub,
    work: Callable[[], T],
    no_sandbox: bool,
    on_interrupt: Callable[[], None] | None = None,
) -> T:
    """Run ``work`` in a thread while Qt's main thread keeps the page of ``hub`` alive.

    The hub is started; when ``work`` is done it is closed, then the page and
    its profile go, in that order. A page that crashes is reported to the hub,
    so that calls in ``work`` fail at once, and loaded again. Call from the main thread.

    Parameters
    ----------
    on_interrupt
        What Ctrl-C does, such as asking a session to come to its end. Without
        it, and on a second Ctrl-C, all that ``work`` asks of the page is
        cancelled from then on.

    Returns
    -------
    T
        What ``work`` returned.

    Raises
    ------
    UserError
        As root without ``no_sandbox``.
    KeyboardInterrupt
        After Ctrl-C, when ``work`` did not return a result in spite of it.
    Exception
        What ``work`` raised.
    """
    check_sandbox(no_sandbox)
    choose_platform()
    with qt_messages_to_logging():
        app = QApplication.instance() or QApplication(["nnjit"])
        result: Future[T] = Future()
        view = EngineView(hub.url)
        keeper = PageKeeper(view, hub.expect_page)
        worker = threading.Thread(target=_fulfil, args=(result, work), name="nnjit-work")
        with _interrupts(on_interrupt) as seen:
            allowed = 0 if on_interrupt is None else 1

            def look() -> None:
                if result.done():
                    app.quit()
                elif len(seen) > allowed:
                    hub.cancel()

            clock = QTimer()  # its ticks also let Python run its signal handlers
            clock.timeout.connect(look)
            clock.start(_POLL_MS)
            try:
                keeper.start()
                worker.start()
                cast(QApplication, app).exec()
            finally:
                keeper.end()
                hub.close()
                worker.join()
                view.shut_down()
    if seen and result.exception() is not None:
        raise KeyboardInterrupt from result.exception()
    return result.result()


_SOFTWARE_RENDERING = (
    "QRhiGles2: Failed to create",
    "Failed to create RHI for backend",
    "This plugin does not support createPlatformVulkanInstance",
    "QVulkanInstance: Failed to initialize Vulkan",
    "GBM is not supported",
    "GPUInfo not initialized on GpuInfoUpdate",
)
"""Starts of Qt's warnings on a machine without a GPU, where it draws in software."""


@contextlib.contextmanager
def qt_messages_to_logging() -> Iterator[None]:
    """Send Qt's own messages to the logger ``nnjit.qt`` while inside."""

    def handle(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
        usual = message.startswith(_SOFTWARE_RENDERING)
        level = logging.DEBUG if usual else _QT_LEVELS[kind]
        logging.getLogger("nnjit.qt").log(level, "%s", message)

    before = qInstallMessageHandler(handle)
    try:
        yield
    finally:
        qInstallMessageHandler(before)


def _fulfil(result: Future[T], work: Callable[[], T]) -> None:
    try:
        result.set_result(work())
    except BaseException as error:
        result.set_exception(error)


@contextlib.contextmanager
def _interrupts(on_first: Callable[[], None] | None) -> Iterator[list[int]]:
    """The Ctrl-Cs so far; they do not raise in Qt's loop, which would swallow it."""
    seen: list[int] = []

    def interrupt(number: int) -> None:
        seen.append(number)
        if len(seen) == 1 and on_first is not None:
            on_first()

    with interrupts(interrupt):
        yield seen
