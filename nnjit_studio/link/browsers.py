"""Browsers on this machine: find one, run it with a fresh profile, end it whole."""

from __future__ import annotations

import contextlib
import html
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.errors import TargetError

SMALL_SHM_BYTES = 256 * 1024 * 1024
"""Containers give 64 MiB of /dev/shm, too little for Chromium's pipes."""

_TERMINATE_S = 3.0
_TAIL_LINES = 12


@dataclass(frozen=True)
class Browser:
    """``name`` is what ``--target`` takes; ``kind`` is ``chromium`` or ``firefox``."""

    name: str
    kind: str
    path: Path


@dataclass(frozen=True)
class RunningBrowser:
    """A browser that :func:`launch` keeps; ``flags`` go with every measurement."""

    browser: Browser
    pid: int
    flags: str


_COMMANDS = {
    "chromium": ("chromium", "chromium-browser"),
    "chrome": ("google-chrome", "google-chrome-stable", "chrome"),
    "edge": ("microsoft-edge", "microsoft-edge-stable", "msedge"),
    "firefox": ("firefox", "firefox-esr"),
}
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

_CHROMIUM_SWITCHES = (
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-extensions",
    "--disable-breakpad",
    # Nothing leaves the machine.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    # A page that nobody looks at works at full speed.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)

_FIREFOX_PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.downloads.remote.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processPriorityManager.enabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "http://127.0.0.1:9/",
    "toolkit.telemetry.enabled": False,
}


def find_all() -> tuple[Browser, ...]:
    """Every browser that is found by its usual name or in its usual place."""
    return tuple(browser for name in _COMMANDS if (browser := _look_for(name)))


def find(target: str) -> Browser:
    """The browser of that name, or the program at that path.

    Raises
    ------
    TargetError
        When there is none.
    """
    if target in _COMMANDS:
        browser = _look_for(target)
        if browser is None:
            raise TargetError(
                f"No {target} was found on this machine.", "Install it, or give the program's path."
            )
        return browser
    path = Path(target).expanduser()
    if not path.is_file() or not os.access(path, os.X_OK):
        raise TargetError(
            f"{target!r} is neither a known browser nor a program.",
            f"Known are {', '.join(_COMMANDS)}; or give the path of a browser.",
        )
    kind = "firefox" if "firefox" in path.name.lower() else "chromium"
    return Browser(path.stem.lower(), kind, path)


def command_line(
    browser: Browser, url: str, profile: Path, no_sandbox: bool, headless: bool
) -> list[str]:
    """The program and its switches; the address comes last."""
    if browser.kind == "firefox":
        switches = ["--headless"] if headless else []
        own = ["--no-remote", "--new-instance", "--profile", str(profile)]
        return [str(browser.path), *switches, *own, url]
    switches = list(_CHROMIUM_SWITCHES)
    if headless:
        switches.append("--headless=new")
    if no_sandbox:
        switches.append("--no-sandbox")
    if _shared_memory_is_small():
        switches.append("--disable-dev-shm-usage")
    return [str(browser.path), *switches, f"--user-data-dir={profile}", url]


@contextlib.contextmanager
def launch(
    browser: Browser,
    url: str,
    no_sandbox: bool = False,
    headless: bool = True,
    on_exit: Callable[[str], None] = lambda reason: None,
) -> Iterator[RunningBrowser]:
    """Run a browser on ``url`` with a new profile; at the end kill it and remove both.

    Parameters
    ----------
    on_exit
        Gets the reason when the browser ends by itself; give it
        ``Hub.report_lost``, then waiting calls fail at once.

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
    profile = Path(tempfile.mkdtemp(prefix="nnjit-browser-"))
    try:
        if browser.kind == "firefox":
            _write_firefox_preferences(profile)
        command = command_line(browser, _start_page(profile, url), profile, no_sandbox, headless)
        watch = _Watch(browser, command, on_exit)
        heir = _Heir(watch.pid, profile)
        try:
            flags = " ".join(s for s in command[1:-1] if str(profile) not in s)
            yield RunningBrowser(browser, watch.pid, flags)
        finally:
            heir.dismiss()
            watch.stop()
    finally:
        _remove(profile)


def is_root() -> bool:
    """Whether the program runs as root, where Chromium's sandbox cannot work."""
    return platform.system() == "Linux" and os.geteuid() == 0


class _Watch:
    """The browser's process and the thread that reads what it complains about."""

    def __init__(self, browser: Browser, command: list[str], on_exit: Callable[[str], None]):
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise TargetError(f"{browser.path} does not start: {error}.") from error
        self.pid = self._process.pid
        self._name = browser.name
        self._on_exit = on_exit
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, name="nnjit-browser-log", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name="nnjit-browser", daemon=True)
        self._reader.start()
        self._waiter.start()

    def stop(self) -> None:
        self._stopping.set()
        _signal_all(self._process, force=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TERMINATE_S)
        _signal_all(self._process, force=True)
        self._waiter.join()
        self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._tail.append(line.rstrip())

    def _wait(self) -> None:
        code = self._process.wait()
        if self._stopping.is_set():
            return
        # A helper process may hold the pipe open; the tail must not wait for it.
        self._reader.join(0.5)
        said = " ".join(list(self._tail)) or "nothing"
        self._on_exit(f"{self._name} ended by itself with code {code}; it said: {said}")


class _Heir:
    """A shell that ends the browser and removes its profile should we be killed.

    It reads from a pipe that only we hold and that closes with us, however we
    go. Not on Windows, where a killed Studio leaves the browser behind.
    """

    _SCRIPT = 'read -r dismissed || { kill -s KILL -- "-$1"; sleep 0.3; rm -rf -- "$2"; }'

    def __init__(self, pid: int, profile: Path) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        if platform.system() != "Windows":
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", self._SCRIPT, "nnjit-heir", str(pid), str(profile)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def dismiss(self) -> None:
        if self._shell is not None:
            self._shell.communicate(b"dismissed\n")


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


def _signal_all(process: subprocess.Popen[str], force: bool) -> None:
    """End the browser and its children: they are one process group, on Windows one tree."""
    if platform.system() == "Windows":
        if force or process.poll() is None:
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(process.pid)], capture_output=True)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL if force else signal.SIGTERM)


def _remove(profile: Path) -> None:
    """Children that die late may still write into it, so a second try is made."""
    shutil.rmtree(profile, ignore_errors=True)
    if profile.exists():
        threading.Event().wait(0.3)
        shutil.rmtree(profile, ignore_errors=True)


def _start_page(profile: Path, url: str) -> str:
    """A file that leads to ``url``: every user sees command lines, and ``url`` holds a token."""
    file = profile / "start.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">')
    return file.as_uri()


def _write_firefox_preferences(profile: Path) -> None:
    lines = (
        f'user_pref("{name}", {str(value).lower() if isinstance(value, bool) else repr(value)});'
        for name, value in _FIREFOX_PREFERENCES.items()
    )
    (profile / "user.js").write_text("\n".join(lines).replace("'", '"') + "\n")


def _shared_memory_is_small() -> bool:
    if platform.system() != "Linux":
        return False
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return True
    return status.f_frsize * status.f_blocks < SMALL_SHM_BYTES
