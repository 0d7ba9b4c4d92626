"""WebKitGTK on a hidden display: a browser that only its WebDriver can start.

Each session has a new profile, and is gone afterwards.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.errors import PageError, TargetError

NAME, KIND = "webkitgtk", "webkit"
COMMAND_S = 120.0
"""The longest that a command of a session may take."""
_START_S = 30.0
_DRIVER = "WebKitWebDriver"


@dataclass(frozen=True)
class Session:
    """Of WebDriver: ``pid`` is the driver's, ``call`` posts to a path below the session."""

    pid: int
    version: str
    call: Callable[..., Any]


def look_for() -> Browser | None:
    """WebKitGTK's small browser, where its driver and a hidden display are there as well."""
    folders = sorted(Path("/usr").glob("lib*/*/webkit2gtk-4.*/MiniBrowser"))
    folders += sorted(Path("/usr").glob("lib*/webkit2gtk-4.*/MiniBrowser"))
    complete = folders and shutil.which(_DRIVER) and shutil.which("Xvfb")
    return Browser(NAME, KIND, folders[-1]) if complete else None


@contextmanager
def session(browser: Browser) -> Iterator[Session]:
    """A session whose page shows nothing yet.

    Raises
    ------
    TargetError, PageError
        When display, driver or browser do not start, or a command is refused.
    """
    import httpx2

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with _display() as display, _driver(port, display) as pid:
        base = f"http://127.0.0.1:{port}/session"
        with httpx2.Client(timeout=COMMAND_S + 10, trust_env=False) as client:

            def post(address: str, /, **body: Any) -> Any:
                try:
                    answer = client.post(address, json=body).json()["value"]
                except httpx2.HTTPError as error:
                    raise PageError(f"{_DRIVER} does not answer: {error}.") from error
                if isinstance(answer, dict) and "error" in answer:
                    said = f"{address.rpartition('/')[2]}: {answer['message']}"
                    raise PageError(f"WebKit refused {said}")
                return answer

            options = {"binary": str(browser.path), "args": ["--automation"]}
            wanted = {"alwaysMatch": {"webkitgtk:browserOptions": options}}
            made = post(base, capabilities=wanted)
            own = f"{base}/{made['sessionId']}"
            version = f"WebKitGTK {made['capabilities']['browserVersion']}"
            try:
                yield Session(pid, version, lambda path, /, **body: post(f"{own}/{path}", **body))
            finally:
                with suppress(httpx2.HTTPError):  # the driver's end takes the browser with it
                    client.delete(own)


@contextmanager
def _driver(port: int, display: str) -> Iterator[int]:
    driver = subprocess.Popen(
        [_DRIVER, f"--port={port}"],
        env={**os.environ, "DISPLAY": display, "WEBKIT_DISABLE_COMPOSITING_MODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        end = time.monotonic() + _START_S
        while not _listens(port):
            if time.monotonic() > end:
                raise TargetError(f"{_DRIVER} was not ready within {_START_S:.0f} s.")
            time.sleep(0.05)
        yield driver.pid
    finally:
        driver.terminate()
        driver.wait()


@contextmanager
def _display() -> Iterator[str]:
    """A display that nobody sees: the small browser has no headless mode."""
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x900x24", "-nolisten", "tcp"],
        pass_fds=(write,),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with os.fdopen(read) as said:
            number = said.readline().strip()
        if not number:
            raise TargetError("Xvfb did not start.", "Run it by hand to see why.")
        yield f":{number}"
    finally:
        server.terminate()
        server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
