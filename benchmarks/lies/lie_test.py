"""Sessions among busy processes, whose ratios are taken again on the quiet machine.

`python benchmarks/lies/lie_test.py MODEL ...` prints every shown speed-up with its repetition, and
exits with 1 when an interval excludes what was found quietly. MODEL is a file or a name of
`nnjit sample`. About a minute a session. With `--keep FILE` each session becomes a line of FILE
and is not repeated; `--repeat FILE` does that later, when nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from lies import (
    BusySession,
    Judged,
    as_row,
    busy_session,
    counts,
    lies_report,
    open_for_lies,
    repeat,
)

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.bench.report import append
from nnjit_studio.cli.bench.options import cold, scratch
from nnjit_studio.errors import NnjitError
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.samples.zoo import MODELS, write_model
from nnjit_studio.workbench import Workbench


@dataclass(frozen=True)
class Case:
    """A session that is to be held, or one that was."""

    model: str
    busy: int
    seconds: float
    seed: int | None
    session: BusySession | None = None


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("models", nargs="*")
    given.add_argument("--sessions", type=int, default=1, help="of each model")
    given.add_argument("--seconds", type=float, default=20.0)
    given.add_argument("--minutes", type=float, default=600.0, help="no session is begun later")
    given.add_argument("--busy", default="6", help="processes at work meanwhile; 6,1: in turns")
    given.add_argument("--drawn", action="store_true", help="first kernels of the lite space")
    given.add_argument("--seed", type=int, default=0, help="of the first session's draw")
    given.add_argument("--keep", type=Path, help="add the sessions to this file, repeat none")
    given.add_argument("--repeat", type=Path, help="repeat the sessions of such a file")
    given.add_argument("--target", default="chromium")
    given.add_argument("--no-sandbox", action="store_true")
    given.add_argument("--markdown", type=Path)
    options = given.parse_args()
    if bool(options.models) == bool(options.repeat):
        given.error("Name models, or a file of kept sessions.")
    cases = kept(options.repeat) if options.repeat else list(planned(options))
    for name in {case.model for case in cases} - set(MODELS):
        if not Path(name).exists():
            given.error(f"{name} is no file, and no name of: {', '.join(MODELS)}.")
    before, judged, sessions = load_average(), [], []
    target = TargetOptions(options.target, no_sandbox=options.no_sandbox)
    end = time.monotonic() + 60 * options.minutes
    for number, case in enumerate(cases):
        if time.monotonic() > end:
            print(f"{number} sessions in {options.minutes:g} minutes", file=sys.stderr)
            break
        with scratch() as folder, cold(folder, target) as opened:
            path = Path(case.model)
            if not path.exists():
                path = folder / f"{case.model}.onnx"
                write_model(case.model, path)
            try:
                told, found = opened.run(
                    lambda how=(case, path): held(opened.bench, *how, not options.keep)
                )
            except NnjitError as error:
                print(f"{case.model}: {error}", file=sys.stderr)
                continue
            device = opened.bench.page.connect()
            conditions = measured_on(device, before, opened.bench.compiler.version)
        judged += found
        sessions.append(told)
        print(f"{number + 1}: {case.model}: {case.busy} busy, {told.told}", file=sys.stderr)
        print(*map(as_row, found), sep="\n", file=sys.stderr, flush=True)
        if options.keep:
            with options.keep.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps({**asdict(case), "session": asdict(told)}) + "\n")
    if not sessions or options.keep:
        return 0 if sessions else 2
    result = {
        **conditions,
        "processes": ",".join(str(n) for n in sorted({case.busy for case in cases})),
        "drawn": any(case.seed is not None for case in cases),
        "seconds": max(case.seconds for case in cases),
        "rows": [as_row(j) for j in judged],
        "counts": counts(judged, sessions),
    }
    report = lies_report(result)
    print(report.text())
    if options.markdown:
        append(options.markdown, report.markdown())
    return 1 if result["counts"]["lies"] else 0


def planned(options: argparse.Namespace) -> Iterator[Case]:
    """Models in turns; each meets each number of processes, whatever their counts are."""
    busy = [int(count) for count in options.busy.split(",")]
    for number in range(options.sessions * len(options.models)):
        model = options.models[number % len(options.models)]
        processes = busy[number // len(options.models) % len(busy)]
        seed = options.seed + number if options.drawn else None
        yield Case(model, processes, options.seconds, seed)


def kept(file: Path) -> list[Case]:
    """Sessions that were held with ``--keep``."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [Case(**{**line, "session": BusySession.from_json(line["session"])}) for line in lines]


def held(
    bench: Workbench, case: Case, path: Path, repeats: bool
) -> tuple[BusySession, list[Judged]]:
    """A case's session, held now where it was not before, and its ratios of now."""
    open_for_lies(bench, path, case.seed)
    told = case.session or busy_session(bench, case.seconds, case.busy)
    return told, repeat(bench, told) if repeats else []


if __name__ == "__main__":
    sys.exit(main())
