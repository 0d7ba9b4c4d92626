"""The verbs of ``fleet``: one job for each of many models, over many workers."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from nnjit_studio.analysis.report import model_gain, model_times
from nnjit_studio.cli.common import JSON, database_path, note, print_json, say
from nnjit_studio.cli.commons.share import MOST_RECORDS, share_records, sharing
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import FILE, PATH, argument, group, option, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import UserError
from nnjit_studio.fleet.cluster import Place, connected
from nnjit_studio.fleet.jobs import Ended, Event, Job, Progressed, Started
from nnjit_studio.fleet.run import run
from nnjit_studio.records import TuningRecord
from nnjit_studio.support.tables import text_table

_PLACE = {
    "scheduler": option("", "A Dask scheduler's address; without it, workers of this machine."),
    "workers": option(
        0, "Workers of this machine; without it, half of its cores.", type=click.IntRange(0, 64)
    ),
    "ca": option(None, "Whom a scheduler over TLS is trusted by, a PEM file.", type=FILE),
    "cert": option(None, "Your certificate for it, a PEM file.", type=FILE),
    "key": option(None, "The key of that, a PEM file.", type=FILE),
}
_FILES: Any = argument(nargs=-1, required=True, type=PATH)
_WITH: Any = option(
    "", 'Further words for each job, such as --with "--seconds 20 --no-sandbox".', flag="--with"
)
_DATABASE: Any = OPTIONS["database"]


@click.group()
def fleet() -> None:
    """Do a job on many models, over workers of this machine or of a Dask cluster."""


@verb()
def tune(
    files: tuple[Path, ...] = _FILES,
    words: str = _WITH,
    place: Place = group(Place, _PLACE),
    database: Path | None = _DATABASE,
    server: str = option(
        "", "Share what was found with this server of the commons: shown, and asked for."
    ),
    yes: bool = option(False, "Share without asking; what is sent is shown all the same."),
    as_json: bool = JSON,
) -> None:
    """Tune each of FILES and keep what is found in the kernel database of this machine."""
    if server:
        sharing().check_on()  # before the work and not after it
    found: list[TuningRecord] = []
    failed = _run("tune", files, words, place, as_json, database_path(database), found)
    if server:
        new = share_records(server, found, yes)
        if new is not None:
            note("sent" if new else "the server had it already")
    if failed:
        sys.exit(1)


@verb()
def compare(
    files: tuple[Path, ...] = _FILES,
    words: str = _WITH,
    place: Place = group(Place, _PLACE),
    as_json: bool = JSON,
) -> None:
    """Compare each of FILES with ONNX Runtime Web, which the workers must have."""
    if _run("compare", files, words, place, as_json):
        sys.exit(1)


fleet.add_command(tune)
fleet.add_command(compare)


def _run(
    what: str,
    files: Iterable[Path],
    words: str,
    place: Place,
    as_json: bool,
    database: Path | None = None,
    found: list[TuningRecord] | None = None,
) -> bool:
    """Do the jobs; whether one failed. Records go to the database and to ``found``."""
    arguments = tuple(shlex.split(words))
    jobs = [Job(i, what, _checked(file), arguments) for i, file in enumerate(files)]
    ends: dict[Job, Ended] = {}
    with connected(place) as client:
        for event in run(client, jobs, send_files=bool(place.scheduler)):
            if isinstance(event, Ended):
                ends[event.job] = event
                if database is not None and event.outcome.records:
                    kept = _keep(database, event.outcome.records)
                    if found is not None:
                        found += kept
            if as_json:
                print_json(_as_json(event))
            else:
                note(_line(event))
    ordered = [ends[job] for job in jobs]
    if not as_json:
        say(text_table(("model", "seconds", "result"), _rows(ordered), left=(0, 2)))
    return any(end.outcome.error for end in ordered)


def _checked(file: Path) -> Path:
    if not file.is_file():
        raise UserError(f"There is no file {str(file)!r}.", "Check the names.")
    return file.resolve()


def _keep(database: Path, records: bytes) -> list[TuningRecord]:
    """Add the records of a job to the database, where equal ones are once; gives them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.db"
        path.write_bytes(records)
        with KernelDatabase.open(database) as known:
            known.import_from(path)
        with KernelDatabase.open(path, read_only=True) as job:
            return list(job.all_records(limit=MOST_RECORDS))


def _line(event: Event) -> str:
    name = event.job.model.name
    match event:
        case Started(attempt=1):
            return f"{name}: begun"
        case Started():
            return f"{name}: begun anew, its worker is gone (attempt {event.attempt})"
        case Progressed():
            return f"{name}: {event.line}"
        case Ended():
            return f"{name}: {event.outcome.error or 'done'} ({event.seconds:.0f} s)"


def _as_json(event: Event) -> Mapping[str, Any]:
    facts = {"event": type(event).__name__.lower(), "model": str(event.job.model)}
    match event:
        case Started():
            return {**facts, "worker": event.worker, "attempt": event.attempt}
        case Progressed():
            return {**facts, "line": event.line}
        case Ended():
            told = event.outcome
            failed = {"error": told.error, "hint": told.hint} if told.error else {}
            return {**facts, "seconds": event.seconds, "summary": dict(told.summary), **failed}


def _rows(ends: Iterable[Ended]) -> Iterator[tuple[str, str, str]]:
    for end in ends:
        told = end.outcome
        result = f"{told.error} {told.hint}" if told.error else _result(end.job, told.summary)
        yield end.job.model.name, f"{end.seconds:.0f}", result


def _result(job: Job, summary: Mapping[str, Any]) -> str:
    """What a job found, and what its machine says against it."""
    if job.verb == "tune":
        told = f"{model_times(summary)}, {model_gain(summary)}"
    else:
        ratios = summary.get("ratios") or {}
        told = ", ".join(
            f"{r['median']:.2f}x ({r['low']:.2f} to {r['high']:.2f}) against {peer}"
            for peer, r in ratios.items()
        ) or "no ratio"  # fmt: skip
    warning = summary.get("warning")
    return f"{told}; {warning}" if warning else told
