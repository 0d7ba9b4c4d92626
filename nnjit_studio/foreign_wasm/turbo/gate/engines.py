"""Engines that functions are measured in: browsers that the Studio starts, and node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser, Extras
from nnjit_studio.engine.pages.opening import open_page
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import PageError, TargetError
from nnjit_studio.support.programs import find_program
from nnjit_studio.support.stopping import ended_by_stop

ROW_TIMEOUT_S = 120.0
"""For one loop or function."""
_COMPILERS = {"chromium": "v8", "firefox": "spidermonkey", "webkit": "jsc"}
_OPTIMISED = "--no-liftoff"
_OPTIMISING = Extras((f"--js-flags={_OPTIMISED}",), {"javascript.options.wasm_baselinejit": False})
"""Only the compiler that long-running code ends up with: where other programs keep it waiting,
one body would be timed in the code of the first compiler, the other in that of the last."""
_JOB = "job.json"
_IN_NODE = """
import { readFile } from "node:fs/promises";
const [script, folder] = process.argv.slice(1);
const { work } = await import(script);
const read = (path) => readFile(`${folder}/${path}`);
const told = (message) => console.log(JSON.stringify(message));
await work(JSON.parse(await read("job.json")), read, told);
"""


class Engine(Protocol):
    """Runs a job of ``resources/bench/turbo/work.js``.

    Attributes
    ----------
    kind
        The compiler: ``v8``, ``spidermonkey`` or ``jsc``.
    version
        Name and version of the program.
    """

    @property
    def kind(self) -> str: ...
    @property
    def version(self) -> str: ...

    def rows(self, job: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
        """The rows that the engine tells, in their order; ``folder`` holds the job's files.

        Raises
        ------
        PageError, TargetError
            When it fails or says nothing for :data:`ROW_TIMEOUT_S`.
        """
        ...


@dataclass(frozen=True)
class Node:
    """The node of this machine."""

    program: str
    kind: str = "v8"

    @property
    def version(self) -> str:
        said = subprocess.run([self.program, "--version"], capture_output=True, text=True)
        return f"node {said.stdout.strip()}"

    def rows(self, job: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
        (folder / _JOB).write_text(json.dumps(job))
        script = Path(str(files("nnjit_studio.resources") / "bench/turbo/work.js")).resolve()
        command = [self.program, _OPTIMISED, "--input-type=module", "-e", _IN_NODE]
        count = sum(len(f["loops"]) for f in job["functions"])
        count += len(job["pairs"]) + len(job["modules"])
        with subprocess.Popen(
            [*command, script.as_uri(), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                with ended_by_stop(process.kill):
                    said, complaints = process.communicate(timeout=ROW_TIMEOUT_S * (1 + count))
            except subprocess.TimeoutExpired:
                raise PageError("node did not end.", "Try Chromium.") from None
            finally:
                process.kill()
        if process.returncode:
            raise PageError(f"node failed: {complaints.strip()[-300:]}", "Try Chromium.")
        for line in said.splitlines():
            message = json.loads(line)
            if message["type"] == "row":
                yield message


@dataclass(frozen=True)
class BrowserEngine:
    """A browser with a profile of its own for each job."""

    browser: Browser
    no_sandbox: bool

    @property
    def kind(self) -> str:
        return _COMPILERS[self.browser.kind]

    @property
    def version(self) -> str:
        return browsers.version(self.browser)

    def rows(self, job: dict[str, Any], folder: Path) -> Iterator[dict[str, Any]]:
        (folder / _JOB).write_text(json.dumps(job))
        with (
            PageServer({"files": folder}) as server,
            open_page(server, self.browser, "turbo/gate.html", self.no_sandbox, extras=_OPTIMISING),
        ):
            yield from server.rows(ROW_TIMEOUT_S)


def engine_of(target: str, no_sandbox: bool) -> Engine:
    """``node``, or a browser by name or path.

    Raises
    ------
    TargetError
        When it is not there.
    """
    if target != "node":
        return BrowserEngine(browsers.find(target), no_sandbox)
    program = find_program("node")
    if program is None:
        raise TargetError("No node was found on this machine.", "Use --target chromium.")
    return Node(str(program))
