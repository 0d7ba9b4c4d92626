"""One start of a browser: its profile, its processes, its last messages, and its end."""

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.engine.browsers.flags import (
    NO_EXTRAS,
    Browser,
    Extras,
    command_line,
    environment,
    write_firefox_preferences,
)
from nnjit_studio.errors import TargetError
from nnjit_studio.support.temporary import process_folder

_TERMINATE_S = 3.0
_TAIL_LINES = 12


@dataclass(frozen=True)
class HowToStart:
    """``gpu`` is one of :data:`~nnjit_studio.engine.browsers.flags.GPU_MODES`."""

    no_sandbox: bool
    gpu: str
    extras: Extras = NO_EXTRAS


class Instance:
    """A started browser, and who ends it should we be killed.

    ``on_exit`` gets the reason when it ends by itself, on a thread of its own.

    Raises
    ------
    TargetError
        When the program does not start.
    """

    def __init__(
        self, browser: Browser, url: str, how: HowToStart, on_exit: Callable[[str], None]
    ) -> None:
        self._cleaning = threading.Lock()
        self.profile = Path(tempfile.mkdtemp(prefix="browser-", dir=process_folder()))
        try:
            if browser.kind == "firefox":
                write_firefox_preferences(self.profile, how.gpu, how.extras.preferences)
            page = _start_page(self.profile, url)
            firefox = browser.kind == "firefox"
            extra = how.extras.firefox_switches if firefox else how.extras.switches
            start = how.no_sandbox, how.extras.headless, how.gpu, extra
            command = command_line(browser, page, self.profile, *start)
            self._watch = _Watch(browser, command, how, on_exit)
        except BaseException:
            _remove(self.profile)
            raise
        self.pid = self._watch.pid
        self._heir = _Heir(self.pid, self.profile)
        self.flags = " ".join(s for s in command[1:-1] if str(self.profile) not in s)

    def stop(self) -> None:
        self._watch.stop()
        self.clean()

    def kill(self) -> None:
        self._watch.kill_rest()

    def clean(self) -> None:
        """What is left of a browser that ended: helper processes, profile, heir."""
        with self._cleaning:
            self._heir.dismiss()
            self._watch.kill_rest()
            _remove(self.profile)


class _Watch:
    """The browser's process and the thread that reads what it complains about."""

    def __init__(
        self,
        browser: Browser,
        command: list[str],
        how: HowToStart,
        on_exit: Callable[[str], None],
    ) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if how.extras.on_output else subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                env=environment(how.gpu),
            )
        except OSError as error:
            raise TargetError(
                f"{browser.path} does not start: {error}.", "Check that it runs by hand."
            ) from error
        self.pid = self._process.pid
        self._name = browser.name
        self._on_exit = on_exit
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._stopping = threading.Event()
        self._reader = threading.Thread(target=self._read, name="nnjit-browser-log", daemon=True)
        self._waiter = threading.Thread(target=self._wait, name="nnjit-browser", daemon=True)
        self._listener = threading.Thread(
            target=self._listen, args=(how.extras.on_output,), name="nnjit-browser-out", daemon=True
        )
        self._reader.start()
        self._listener.start()
        self._waiter.start()

    def stop(self) -> None:
        self._stopping.set()
        _signal_all(self._process, force=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TERMINATE_S)
        self.kill_rest()
        if self._waiter is not threading.current_thread():
            self._waiter.join()
        self._reader.join()
        self._listener.join()

    def kill_rest(self) -> None:
        """Helpers outlive a browser that crashed."""
        _signal_all(self._process, force=True)

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as said:
            for line in said:
                self._tail.append(line.rstrip())

    def _listen(self, on_output: Callable[[str], None] | None) -> None:
        if on_output is not None and self._process.stdout is not None:
            with self._process.stdout as printed:
                for line in printed:
                    on_output(line.rstrip("\n"))

    def _wait(self) -> None:
        code = self._process.wait()
        if self._stopping.is_set():
            return
        # A helper process may hold the pipe open; the tail must not wait for it.
        self._reader.join(0.5)
        said = " ".join(list(self._tail)).rstrip(". ") or "nothing"
        self._on_exit(f"{self._name} ended by itself with code {code}; it said: {said}.")


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
        if self._shell is not None and self._shell.poll() is None:
            self._shell.communicate(b"dismissed\n")


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
    """A file that leads to ``url``: every user sees command lines, and ``url`` holds a token.

    An ``about:`` page has none, and whoever asks for it goes on from there: a file's way to it
    could overtake theirs.
    """
    if url.startswith("about:"):
        return url
    file = profile / "start.html"
    file.write_text(f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">')
    return file.as_uri()
