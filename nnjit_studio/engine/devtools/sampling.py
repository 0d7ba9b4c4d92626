"""CPU profiles of everything that a browser runs: its pages and their workers."""

from __future__ import annotations

import base64
import contextlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.engine.devtools.connection import DevTools, devtools
from nnjit_studio.errors import PageError

SAMPLED = ("page", "iframe", "worker", "shared_worker", "service_worker")
_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
_SOURCE_S = 120.0
_START_S = 30.0


@dataclass(frozen=True)
class ThreadProfile:
    """The samples of one page or worker."""

    kind: str
    url: str
    profile: Mapping[str, Any]
    """A ``Profiler.Profile`` of the protocol."""
    modules: Mapping[str, bytes]
    """Its Wasm modules, by the address that the frames name."""


class Sampler:
    """Samples every page and worker of a browser from its first instruction."""

    def __init__(self, interval_us: int) -> None:
        self._interval_us = interval_us
        self._lock = threading.Lock()
        self._sessions: dict[str, dict[str, Any]] = {}
        self._scripts: dict[str, dict[str, str]] = {}
        self._tools: DevTools | None = None
        self._page = ""
        self._page_came = threading.Event()

    def start(self, tools: DevTools) -> None:
        """From now on, and for what is already there."""
        self._tools = tools
        tools.call("Target.setAutoAttach", **_ATTACH)

    def navigate(self, url: str) -> None:
        """Open an address in the browser's page, as soon as there is one."""
        assert self._tools is not None
        if not self._page_came.wait(_START_S):
            raise PageError(f"The browser showed no page within {_START_S:.0f} s.")
        self._tools.call("Page.navigate", self._page, url=url)

    def restart(self) -> None:
        """Forget the samples until now."""
        assert self._tools is not None
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            with contextlib.suppress(PageError):  # a worker that ended in the meantime
                self._tools.call("Profiler.stop", session, _SOURCE_S)
                self._tools.call("Profiler.start", session)

    def on_event(self, session: str, method: str, params: Mapping[str, Any]) -> None:
        """The callback of the connection."""
        if method == "Target.attachedToTarget":
            self._attached(params["sessionId"], params["targetInfo"])
        elif method == "Target.detachedFromTarget":
            with self._lock:
                self._sessions.pop(params["sessionId"], None)
        elif method == "Debugger.scriptParsed" and params.get("scriptLanguage") == "WebAssembly":
            with self._lock:
                self._scripts.setdefault(session, {})[params["url"]] = params["scriptId"]

    def stop(self) -> list[ThreadProfile]:
        """End sampling; one profile for each page and worker that is still there."""
        assert self._tools is not None
        with self._lock:
            sessions = dict(self._sessions)
        stopped: list[tuple[str, dict[str, Any], dict[str, Any]]] = []
        for session, target in sessions.items():
            try:
                profile = self._tools.call("Profiler.stop", session, _SOURCE_S)["profile"]
            except PageError:
                continue  # it ended in the meantime, or had not begun
            stopped.append((session, target, profile))
        found: dict[str, bytes] = {}
        return [
            ThreadProfile(target["type"], target["url"], profile, self._modules(session, found))
            for session, target, profile in stopped
        ]

    def _attached(self, session: str, target: dict[str, Any]) -> None:
        """On the connection's thread, where nothing may wait for an answer."""
        assert self._tools is not None
        if target["type"] in SAMPLED:
            with self._lock:
                self._sessions[session] = target
            self._tools.send("Target.setAutoAttach", session, **_ATTACH)
            self._tools.send("Profiler.enable", session)
            self._tools.send("Profiler.setSamplingInterval", session, interval=self._interval_us)
            self._tools.send("Profiler.start", session)
            if target["type"] == "page" and not self._page:
                self._page = session
                self._page_came.set()
        self._tools.send("Runtime.runIfWaitingForDebugger", session)

    def _modules(self, session: str, found: dict[str, bytes]) -> dict[str, bytes]:
        """The Wasm modules of a page or worker; ``found`` remembers those that threads share.

        Not before sampling ends: with the debugger on, V8 runs code made for stepping.
        """
        assert self._tools is not None
        self._tools.call("Debugger.enable", session)
        with self._lock:
            scripts = dict(self._scripts.get(session, {}))
        for url, script in scripts.items():
            if url not in found:
                source = self._tools.call(
                    "Debugger.getScriptSource", session, _SOURCE_S, scriptId=script
                )
                found[url] = base64.b64decode(source.get("bytecode", ""))
        self._tools.call("Debugger.disable", session)
        return {url: found[url] for url in scripts}


@contextmanager
def sampling(profile: Path, interval_us: int) -> Iterator[Sampler]:
    """Sample the browser of a profile folder, until :meth:`Sampler.stop`.

    Raises
    ------
    TargetError
        When the browser has no DevTools port.
    """
    sampler = Sampler(interval_us)
    with devtools(profile, sampler.on_event) as tools:
        sampler.start(tools)
        yield sampler
