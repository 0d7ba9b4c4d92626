"""Sessions among busy processes, whose ratios are taken again on the quiet machine.

`python benchmarks/lie_test.py MODEL ...` prints every shown speed-up with its repetition, and
exits with 1 when an interval excludes what was found quietly. MODEL is a file or a name of
`nnjit sample`. About a minute a session.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from nnjit_studio.bench.conditions import load_average, measured_on
from nnjit_studio.bench.report import append
from nnjit_studio.bench.tuner.lies import as_row, counts, lie_session, lies_report
from nnjit_studio.cli.bench.options import cold, scratch
from nnjit_studio.errors import NnjitError
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.samples.zoo import MODELS, write_model


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("models", nargs="+")
    given.add_argument("--sessions", type=int, default=1, help="of each model")
    given.add_argument("--seconds", type=float, default=20.0)
    given.add_argument("--minutes", type=float, default=600.0, help="no session is begun later")
    given.add_argument("--busy", default="6", help="processes at work meanwhile; 6,1: in turns")
    given.add_argument("--drawn", action="store_true", help="first kernels of the lite space")
    given.add_argument("--target", default="chromium")
    given.add_argument("--no-sandbox", action="store_true")
    given.add_argument("--markdown", type=Path)
    options = given.parse_args()
    before, judged, sessions = load_average(), [], []
    busy = [int(count) for count in options.busy.split(",")]
    target = TargetOptions(options.target, no_sandbox=options.no_sandbox)
    end = time.monotonic() + 60 * options.minutes
    for number in range(options.sessions * len(options.models)):
        if time.monotonic() > end:
            print(f"{number} sessions in {options.minutes:g} minutes", file=sys.stderr)
            break
        name = options.models[number % len(options.models)]
        with scratch() as folder, cold(folder, target) as opened:
            path = Path(name)
            if not path.exists() and name not in MODELS:
                given.error(f"{name} is no file, and no name of: {', '.join(MODELS)}.")
            if not path.exists():
                path = folder / f"{name}.onnx"
                write_model(name, path)
            # Each model meets each number of processes, whatever their counts are.
            processes = busy[number // len(options.models) % len(busy)]
            how = path, options.seconds, processes, number if options.drawn else None
            try:
                found, told = opened.run(lambda how=how: lie_session(opened.bench, *how))
            except NnjitError as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            device = opened.bench.page.connect()
            conditions = measured_on(device, before, opened.bench.compiler.version)
        judged += found
        sessions.append(told)
        print(f"{number + 1}: {name}: {processes} busy, {told['told']}", file=sys.stderr)
        print(*map(as_row, found), sep="\n", file=sys.stderr, flush=True)
    if not sessions:
        return 2
    result = {
        **conditions,
        "processes": options.busy,
        "drawn": options.drawn,
        "seconds": options.seconds,
        "rows": [as_row(j) for j in judged],
        "counts": counts(judged, sessions),
    }
    report = lies_report(result)
    print(report.text())
    if options.markdown:
        append(options.markdown, report.markdown())
    return 1 if result["counts"]["lies"] else 0


if __name__ == "__main__":
    sys.exit(main())
