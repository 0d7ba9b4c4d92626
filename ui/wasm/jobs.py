"""Long jobs of the dock, as its tabs start them.

What reads models or Wasm files is imported when a job begins: the window is shown before.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.opening import Opening, in_browser
from nnjit_studio.foreign_wasm.inspection.cost.in_browser import find_engine
from nnjit_studio.foreign_wasm.inspection.cost.measure import isolated, traced
from nnjit_studio.foreign_wasm.inspection.cost.records import CompileCost
from nnjit_studio.foreign_wasm.inspection.cost.shells import find_shell
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.foreign_wasm.offload.cases import Loop
from nnjit_studio.foreign_wasm.turbo.speed.result import Compared
from nnjit_studio.tuner.events import Event
from nnjit_studio.tuner.protocols import Records

Note = Callable[[str], None]
Emit = Callable[[Any], None]
"""Takes words of progress, and results as they come."""
HEAVIEST = 8
"""Functions that are compiled alone in an engine that does not tell its own figures."""


def engine_names() -> list[str]:
    """Engines of this machine, Node last."""
    return browser_names() + (["node"] if find_shell("node") else [])


def browser_names() -> list[str]:
    """Browsers of this machine."""
    return [browser.name for browser in browsers.find_all()]


def compile_times(survey: Survey, name: str, no_sandbox: bool, note: Note) -> CompileCost:
    """Compile a file in both tiers of an engine: all functions in V8, the heaviest elsewhere.

    Raises
    ------
    UserError
        When the file cannot be read, or the engine refuses it or does not start.
    """
    engine = find_engine(name, no_sandbox)
    if engine.kind == "v8":
        return traced(engine, survey, note)
    heaviest = sorted(survey.functions, key=lambda f: -f.bytes)[:HEAVIEST]
    return isolated(engine, survey, [f.index for f in heaviest], note, rounds=1)


def places(no_sandbox: bool) -> dict[str, Opening]:
    """Where pages can be opened: the browsers of this machine."""
    return {b.name: in_browser(b, no_sandbox) for b in browsers.find_all()}


def case_names(original: Path) -> list[str]:
    """The cases on which a module can be compared with its original."""
    from nnjit_studio.foreign_wasm.turbo.speed.compare import case_names

    return case_names(original)


def needs_frames(original: Path) -> bool:
    """Whether its library runs in frames of a page."""
    from nnjit_studio.foreign_wasm.turbo.speed.tensorflow import is_tensorflow

    return is_tensorflow(original)


def compare_speed(
    original: Path, builds: Mapping[str, Path], cases: Sequence[str], where: Mapping[str, Opening]
) -> Iterator[Compared]:
    """The original and its faster forms in turns: a row for each case, place and form."""
    from nnjit_studio.foreign_wasm.turbo.speed.compare import compared

    with tempfile.TemporaryDirectory(prefix="nnjit-speed-") as folder:
        yield from compared(original, builds, cases, where, Path(folder))


@dataclass(frozen=True)
class Runtime:
    """A file whose kernels can be exchanged, and how many there are."""

    file: Path
    kernels: int


def runtime_of(path: Path) -> Runtime:
    """What of a file can be exchanged while it runs.

    Raises
    ------
    UserError
        When nothing can, and why.
    """
    from nnjit_studio.foreign_wasm.live.job import open_runtime

    return Runtime(path, len(open_runtime(path).made.kernels))


def live(given: Mapping[str, Any], records: Records) -> Iterator[Event]:
    """A live session; ``given`` are fields of its request."""
    from nnjit_studio.foreign_wasm.live.tune import LiveRequest, tune
    from nnjit_studio.workbench.page import SystemClock

    yield from tune(LiveRequest(**given), records, SystemClock())


def loops(path: Path, note: Note) -> list[Loop]:
    """The loops of a file, each with its verdict."""
    from nnjit_studio.foreign_wasm.offload.loops import find_loops

    return find_loops(path, note)


@dataclass(frozen=True)
class Priced:
    """What was measured of the loop at a place."""

    place: int
    told: Mapping[str, Any]


@dataclass(frozen=True)
class Prices:
    """Loops with what was measured, by their places, and the counters as Prometheus text."""

    loops: Mapping[int, Mapping[str, Any]]
    adapter: Mapping[str, Any]
    counters: str


def prices(
    found: Sequence[Loop], target: str, gpu: str, mode: str, no_sandbox: bool, emit: Emit
) -> Prices:
    """Run each loop that can stand alone as it is and on the adapter of a browser.

    Emits words, and each loop's price as :class:`Priced` as soon as it is known.

    Raises
    ------
    UserError, TargetError, PageError
    """
    from nnjit_studio.foreign_wasm.offload import job, report

    cases = [replace(x.case, name=str(i)) for i, x in enumerate(found) if x.case is not None]
    told: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="nnjit-offload-") as folder:
        where = job.Where(Path(folder), target, no_sandbox, gpu)

        def priced(row: dict[str, Any]) -> None:
            place = int(row["name"])
            told[place] = report.priced(found[place].told, row)
            emit(Priced(place, told[place]))

        rows, adapter = job.run_cases(cases, mode, where, emit, {}, on_row=priced)
    return Prices(told, adapter, report.metrics(rows))
