"""A job on the machine that does it: the verb as a process of its own, its last line the answer."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nnjit_studio.fleet.jobs import Job, Outcome

_KEEPS_RECORDS = frozenset({"tune"})
_PROGRAM = "from nnjit_studio.entry import job_main; job_main()"
_SHOWN = ("round", "drift", "plan")


def work(job: Job, content: bytes | None, tell: Callable[[str], None]) -> Outcome:
    """Run the verb of a job; ``content`` is the model where its file is on another machine."""
    with tempfile.TemporaryDirectory(prefix="nnjit-fleet-") as folder:
        model, database = job.model, Path(folder) / "kernels.db"
        if content is not None:
            model = Path(folder) / job.model.name
            model.write_bytes(content)
        words = [job.verb, str(model), "--json", *job.arguments]
        if job.verb in _KEEPS_RECORDS:
            words += ["--database", str(database)]
        command = [sys.executable, "-c", _PROGRAM, *words]
        said = Path(folder) / "said.txt"
        with (
            said.open("wb") as errors,
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            ) as process,
        ):
            last = _follow(process, tell)
        if process.returncode != 0 or last is None or last.get("ok") is False:
            return _failed(process.returncode, last or {}, said.read_text(errors="replace"))
        return Outcome(last, database.read_bytes() if database.exists() else b"")


def _follow(process: subprocess.Popen[bytes], tell: Callable[[str], None]) -> dict[str, Any] | None:
    """Tell the lines of a process that a person would want; gives its last JSON object."""
    assert process.stdout is not None
    last: dict[str, Any] | None = None
    told = ""
    for line in process.stdout:
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict):
            last = document
            if document.get("event") in _SHOWN and "best_gflops" in document:
                kernel = str(document["workload"]).split("#")[0]
                text = f"{kernel}  best {document['best_gflops']:.1f} GFLOP/s"
                if text != told:
                    tell(text)
                told = text
    return last


def _failed(code: int, last: dict[str, Any], said: str) -> Outcome:
    lines = said.strip().splitlines()
    why = lines[-1][:200] if lines else "it said nothing"
    error = str(last.get("error") or f"The job ended with code {code}: {why}.")
    return Outcome({}, b"", error, str(last.get("hint") or "Run the same verb here to see why."))
