"""Engines without a browser: Node, and SpiderMonkey's shell."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from nnjit_studio.errors import PageError, TargetError
from nnjit_studio.foreign_wasm.inspection.cost.engines import Job, Row
from nnjit_studio.foreign_wasm.inspection.cost.memory import watched
from nnjit_studio.foreign_wasm.inspection.cost.v8_lines import TIERS as V8_TIERS
from nnjit_studio.support.programs import find_program
from nnjit_studio.support.stopping import ended_by_stop

_MARK = "@row "
_VERSION_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Shell:
    """A program that runs a script; ``kind`` is ``v8`` or ``spidermonkey``."""

    name: str
    kind: str
    path: Path

    def version(self) -> str:
        run = subprocess.run(
            [str(self.path), "--version"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_TIMEOUT_S,
        )
        return f"{self.path.name} {run.stdout.strip().splitlines()[0] if run.stdout else ''}"

    def compile(self, job: Job) -> Generator[Row, None, int | None]:
        """See :class:`~nnjit_studio.foreign_wasm.inspection.cost.engines.Engine`.

        Raises
        ------
        PageError
            When the program ends before its work.
        """
        script = files("nnjit_studio.resources") / "bench" / "compile_times.js"
        of_tier = V8_TIERS[job.tier] if self.kind == "v8" else (f"--wasm-compiler={job.tier}",)
        command = [self.path, *of_tier, *job.flags, script, job.rounds, job.slow_ms, *job.files]
        rounds, found = 0, None
        with (
            _started([str(word) for word in command]) as process,
            watched(process.pid) as peak,
        ):
            assert process.stdout is not None and process.stdin is not None
            for line in process.stdout:
                if line.startswith(_MARK):
                    rounds += 1
                    found = peak.look()
                    if rounds == job.rounds:
                        process.stdin.close()  # what the script waits for
                    yield json.loads(line.removeprefix(_MARK))
                else:
                    job.on_line(line.rstrip("\n"))
            code = process.wait()
        if rounds < job.rounds:
            raise PageError(
                f"{self.name} ended with code {code} before it had compiled the module.",
                "Compile it in Chromium, or look at the machine's memory.",
            )
        return found


def find_shell(name: str) -> Shell | None:
    """Node or a SpiderMonkey shell, by the name of its command or by its path."""
    found = find_program(name)
    short = Path(name).name
    if found is None or not short.startswith(("node", "js", "mozjs")):
        return None
    return Shell(short, "v8" if short.startswith("node") else "spidermonkey", found)


@contextlib.contextmanager
def _started(command: list[str]) -> Generator[subprocess.Popen[str]]:
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise TargetError(f"{command[0]} does not start: {error}.") from error

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    try:
        with ended_by_stop(kill):
            yield process
    finally:
        kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
