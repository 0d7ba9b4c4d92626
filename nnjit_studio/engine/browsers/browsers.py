"""Browsers on this machine: find one, keep it running with a fresh profile, end all of it."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import shutil
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.engine.browsers import webkit
from nnjit_studio.engine.browsers.flags import NO_EXTRAS, Browser, Extras
from nnjit_studio.engine.browsers.process import HowToStart, Instance
from nnjit_studio.errors import TargetError
from nnjit_studio.support.stopping import ended_by_stop

RESTARTS = 3
RESTARTS_WITHIN_S = 60.0
"""A browser that crashes more often than so many times in so long is given up."""

COMES_WITHIN_S = 20.0
"""A page that did not come by then was lost on its way: a browser whose renderer or network
process ends while it starts says nothing and runs on. Chromium's did so when its main process
stood still for 18 s. With six busy processes on two cores a page takes 2 to 4 s."""
LOGGER = logging.getLogger("nnjit.page")

_VERSION_TIMEOUT_S = 10.0


@dataclass
class RunningBrowser:
    """A browser that :func:`launch` keeps."""

    browser: Browser
    flags: str
    """What it was started with; they go with every measurement."""
    pid: int = 0
    """Of its first process, another one after a restart."""
    profile: Path = Path()
    """Its folder, another one after a restart."""
    crashes: int = 0
    """How often it ended by itself."""
    end: Callable[[], None] = lambda: None
    """Kills it as if it had crashed."""


_COMMANDS = {
    "chromium": ("chromium", "chromium-browser"),
    "chrome": ("google-chrome", "google-chrome-stable", "chrome"),
    "edge": ("microsoft-edge", "microsoft-edge-stable", "msedge"),
    "firefox": ("firefox", "firefox-esr"),
}
_KNOWN = (*_COMMANDS, webkit.NAME)
_MACOS = {
    "chromium": "Chromium.app/Contents/MacOS/Chromium",
    "chrome": "Google Chrome.app/Contents/MacOS/Google Chrome",
    "edge": "Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    "firefox": "Firefox.app/Contents/MacOS/firefox",
}
_WINDOWS = {
    "chromium": "Chromium/Application/chrome.exe",
    "chrome": "Google/Chrome/Application/chrome.exe",
    "edge": "Microsoft/Edge/Application/msedge.exe",
    "firefox": "Mozilla Firefox/firefox.exe",
}


def find_all() -> tuple[Browser, ...]:
    """Every browser that is found by its usual name or in its usual place, but for WebKitGTK.

    That has a display of its own that nobody sees, and is no visitor's: it is used when asked for.
    """
    return tuple(browser for name in _COMMANDS if (browser := _look_for(name)))


def find(target: str) -> Browser:
    """The browser of that name, or the program at that path.

    Raises
    ------
    TargetError
        When there is none.
    """
    if target in _KNOWN:
        browser = webkit.look_for() if target == webkit.NAME else _look_for(target)
        if browser is None:
            raise TargetError(
                f"No {target} was found on this machine.", "Install it, or give the program's path."
            )
        return browser
    path = Path(target).expanduser()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise TargetError(
            f"{target!r} is neither a known browser nor a program.",
            f"Known are {', '.join(_KNOWN)}; or give the path of a browser.",
        )
    kind = "firefox" if "firefox" in path.name.lower() else "chromium"
    return Browser(path.stem.lower(), kind, path)


def version(browser: Browser) -> str:
    """What the program says its version is; empty when it does not tell."""
    if browser.kind == webkit.KIND:
        with webkit.session(browser) as session:  # the program itself asks for a display
            return session.version
    if platform.system() == "Windows":
        return ""  # there it would open a window
    try:
        run = subprocess.run(
            [str(browser.path), "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line for line in run.stdout.splitlines() if any(c.isdigit() for c in line)]
    return lines[-1].strip() if lines else ""


@contextlib.contextmanager
def launch(
    browser: Browser,
    url: str,
    no_sandbox: bool = False,
    on_exit: Callable[[str], None] = lambda reason: None,
    gpu: str = "",
    on_return: Callable[[bool], None] | None = None,
    extras: Extras = NO_EXTRAS,
    pages: Callable[[], int] | None = None,
) -> Iterator[RunningBrowser]:
    """Run a browser on ``url`` with a new profile; at the end kill it and remove both.

    WebKitGTK takes nothing of what follows, and its end is noticed by nobody but the page's server,
    to which it says nothing more.

    Parameters
    ----------
    on_exit
        Gets the reason when the browser ends by itself; give it
        ``Hub.report_lost``, then waiting calls fail at once.
    gpu
        One of :data:`~nnjit_studio.engine.browsers.flags.GPU_MODES`.
    extras
        Switches, preferences and a reader of the output, on top of the usual start.
    on_return
        With it, a browser that ended by itself is started again; give it
        ``Hub.expect_page``. Gets True before each start, and False when the browser
        is given up, after :data:`RESTARTS` in :data:`RESTARTS_WITHIN_S` seconds.
    pages
        How often a page came. With it, a start that brings none within
        :data:`COMES_WITHIN_S` is repeated once, which nobody who waits notices.

    Raises
    ------
    TargetError
        When the browser does not start, or could not as root.
    """
    if browser.kind == "chromium" and is_root() and not no_sandbox:
        raise TargetError(
            f"{browser.name} does not start as root with its sandbox.",
            "Run as another user, or give --no-sandbox.",
        )
    if browser.kind == webkit.KIND:
        if gpu or extras is not NO_EXTRAS:
            raise TargetError(
                f"{browser.name} has no switches and no preferences, which this needs.",
                "Use chromium or firefox.",
            )
        with webkit.session(browser) as session:
            session.call("url", url=url)
            yield RunningBrowser(browser, "", session.pid)
        return
    how = HowToStart(no_sandbox, gpu, extras)
    keeper = _Keeper(browser, url, how, on_exit, on_return, pages)
    try:
        keeper.start()
        with ended_by_stop(keeper.end):
            yield keeper.running
    finally:
        keeper.stop()


def is_root() -> bool:
    """Whether the program runs as root, where Chromium's sandbox cannot work."""
    return platform.system() == "Linux" and os.geteuid() == 0


class _Keeper:
    """Keeps one browser running: the present instance, and the next one after a crash."""

    def __init__(
        self,
        browser: Browser,
        url: str,
        how: HowToStart,
        on_exit: Callable[[str], None],
        on_return: Callable[[bool], None] | None,
        pages: Callable[[], int] | None,
    ) -> None:
        self.running = RunningBrowser(browser, "", end=self.end)
        self._url = url
        self._how = how
        self._on_exit = on_exit
        self._on_return = on_return
        self._pages = pages
        self._waiting: threading.Timer | None = None
        self._lock = threading.Lock()
        self._instance: Instance | None = None
        self._stopped = False
        self._starts: deque[float] = deque(maxlen=RESTARTS)

    def start(self, once_more: bool = True) -> None:
        """Start an instance, and ``once_more`` another if it brings no page in time."""
        pages = self._pages
        before = pages() if pages is not None else 0
        with self._lock:
            if self._stopped:
                return
            self._instance = Instance(self.running.browser, self._url, self._how, self._ended)
            self.running.pid, self.running.profile = self._instance.pid, self._instance.profile
            self.running.flags = self._instance.flags
            if once_more and pages is not None:
                self._waiting = after(COMES_WITHIN_S, lambda: self._look(before))

    def _look(self, before: int) -> None:
        if self._pages is not None and self._pages() == before:
            LOGGER.warning(
                "%s did not open its page within %g s and is started again.",
                self.running.browser.name, COMES_WITHIN_S,
            )  # fmt: skip
            self._replace()

    def _expect_none(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            instance = self._instance
        self._expect_none()
        if instance is not None:
            instance.stop()

    def end(self) -> None:
        with self._lock:
            if self._instance is not None and not self._stopped:
                self._instance.kill()

    def _replace(self) -> None:
        """Start another instance, of which ``on_exit`` hears nothing unless that fails."""
        with self._lock:
            instance = self._instance
        if instance is not None:
            instance.stop()  # after which nobody starts another because this one ended
            with self._lock:
                replaced = self._instance is not instance
            if not replaced:
                self._start_again(once_more=False)

    def _ended(self, reason: str) -> None:
        """On the thread that waits for the browser."""
        with self._lock:  # it may have ended before it was seen to start
            instance = self._instance
        self._expect_none()
        self.running.crashes += 1
        self._on_exit(reason)
        if self._on_return is None:
            return
        now = time.monotonic()
        if len(self._starts) == RESTARTS and now - self._starts[0] < RESTARTS_WITHIN_S:
            self._on_exit(
                f"{self.running.browser.name} was started again {RESTARTS} times within "
                f"{RESTARTS_WITHIN_S:.0f} s and is given up: {reason}"
            )
            self._on_return(False)
            return
        self._starts.append(now)
        if instance is not None:
            instance.clean()
        self._on_return(True)
        self._start_again()

    def _start_again(self, once_more: bool = True) -> None:
        try:
            self.start(once_more)
        except TargetError as error:
            self._on_exit(str(error))
            if self._on_return is not None:
                self._on_return(False)


def after(seconds: float, do: Callable[[], None]) -> threading.Timer:
    """Do something later, unless the timer that is given is cancelled or the program ends."""
    timer = threading.Timer(seconds, do)
    timer.daemon = True
    timer.start()
    return timer


def _look_for(name: str) -> Browser | None:
    found = next((Path(p) for c in _COMMANDS[name] if (p := shutil.which(c))), None)
    places: list[Path] = []
    if platform.system() == "Darwin":
        roots = [Path("/Applications"), Path.home() / "Applications"]
        places = [root / _MACOS[name] for root in roots]
    elif platform.system() == "Windows":
        variables = ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA")
        places = [Path(os.environ[v]) / _WINDOWS[name] for v in variables if v in os.environ]
    path = found or next((place for place in places if place.is_file()), None)
    kind = "firefox" if name == "firefox" else "chromium"
    return Browser(name, kind, path) if path else None
