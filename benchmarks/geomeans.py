"""How many times as fast as ONNX Runtime Web: the geometric mean over many models.

`python benchmarks/geomeans.py MODEL ... --minutes 9` runs `nnjit compare` on each MODEL (a file, or
a name of `nnjit sample`) with float32 weights and one thread; with `--tune S` after S seconds of
`nnjit tune --plan`, with `--advise` also `nnjit advise` under an error limit. Open sizes take the
first values that the window proposes. What the minutes do not reach is named and left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from nnjit_studio.bench.report import append
from nnjit_studio.bench.statistics import geomean
from nnjit_studio.compiler.onnx_file.survey import survey
from nnjit_studio.workbench.inputs import roles
from nnjit_studio.workbench.inputs.values import drawn

NNJIT = Path(sys.executable).with_name("nnjit")
LIMIT_S = 600.0
"""Of one command."""
ROUNDS_S = 90.0
"""Of a comparison, at most: programs of 3 s a run need them for the pairs of an interval."""
HEADS = "| model | ONNX Runtime Web ms | untuned ms | ours ms | ratio | interval | with advice |"


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("models", nargs="+")
    given.add_argument("--tune", type=float, default=0.0, help="seconds for each model, 0 for none")
    given.add_argument("--advise", action="store_true", help="some minutes for each model")
    given.add_argument("--max-error", type=float, default=1e-2)
    given.add_argument("--minutes", type=float, default=60.0, help="no model is begun later")
    given.add_argument("--target", default="chromium")
    given.add_argument("--no-sandbox", action="store_true")
    given.add_argument("--markdown", type=Path)
    options = given.parse_args()
    end, rows, left = time.monotonic() + 60 * options.minutes, [], []
    for name in options.models:
        if time.monotonic() > end:
            left.append(name)
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = compared(name, Path(folder), options)
        print(as_line(row), file=sys.stderr, flush=True)
        rows.append(row)
    if not rows:
        return 2
    text = report(rows, left, options)
    print(text)
    if options.markdown:
        append(options.markdown, text)
    return 0


def compared(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """The verdict of a model as a row; a sentence where there is none."""
    model = Path(name)
    try:
        if not model.exists():
            model = folder / f"{name}.onnx"
            command("sample", name, "-o", str(model))
        page = ["--target", options.target, "--database", str(folder / "kernels.db")]
        page += ["--no-sandbox"] if options.no_sandbox else []
        page += shape_args(model, folder / "inputs.npz")
        if options.tune:
            command("tune", str(model), "--seconds", str(options.tune), "--plan", *page)
        rounds = ["--cold", "1", "--seconds", str(ROUNDS_S)]
        told = json.loads(command("compare", str(model), *page, *rounds, "--json"))
        row = {"model": model.stem, **verdict_of(told)}
        if options.advise:
            limit = ["--max-error", str(options.max_error)]
            advice = json.loads(command("advise", str(model), *limit, *page, "--json"))
            row["advice"] = best_gain(advice)
    except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
        words = getattr(error, "stderr", "") or str(error)
        return {"model": model.stem, "problem": str(words).strip().splitlines()[-1][:160]}
    return row


def shape_args(model: Path, inputs: Path) -> list[str]:
    """The option for inputs of the sizes that the window would propose; none for fixed sizes."""
    read = survey(model)
    if not read.open_dims:
        return []
    sizes = {axis.name: axis.first for axis in roles.axes_of(read)}
    constants = {c.name: c.first for c in roles.constants_of(read)}
    np.savez(inputs, **drawn(read, sizes, constants))
    return ["--inputs", str(inputs)]


def command(*words: str) -> str:
    """What ``nnjit`` prints; raises ``CalledProcessError``, also where its limit of time ends."""
    done = subprocess.run(
        [NNJIT, *words], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    return done.stdout


def verdict_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """Times and the ratio of a comparison; no ratio where it may not be stated."""
    ms = {row["who"]: row["ms"]["median"] for row in told["rows"] if row["ms"]}
    return {
        "ort": ms.get("ort"),
        "untuned": ms.get("untuned"),
        "ours": ms.get("tuned", ms.get("untuned")),
        "ratio": told["ratio"].get("ort"),
        "interval": told["intervals"].get("ort"),
        "problem": "" if told["ratio"].get("ort") else told["state"],
    }


def best_gain(advice: Mapping[str, Any]) -> float:
    """Of the best row that the guard lets through, that is faster and that asks nothing of the
    page, such as headers for threads or the use of one output alone; 1 where none is."""
    gains = [
        row["measured"]["ratio"]["median"]
        for row in advice["rows"]
        if row["outcome"] == "faster" and not row["refusal"] and not row["asks"]
    ]
    return max([1.0, *gains])


def as_line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    times = [f"{row[who]:.3g}" if row.get(who) else "" for who in ("ort", "untuned", "ours")]
    if not row.get("ratio"):
        return f"| {row['model']} | {' | '.join(times)} | | {row['problem']} | |"
    ends = f"{row['interval']['low']:.2f} to {row['interval']['high']:.2f}"
    both = f"{row['ratio'] * row['advice']:.2f}" if "advice" in row else ""
    return f"| {row['model']} | {' | '.join(times)} | {row['ratio']:.2f} | {ends} | {both} |"


def report(
    rows: Sequence[Mapping[str, Any]], left: Sequence[str], options: argparse.Namespace
) -> str:
    """A dated section with the table and the geometric means of what could be stated."""
    stated = [row for row in rows if row.get("ratio")]
    mean = geomean(row["ratio"] for row in stated)
    first = geomean(row["ort"] / row["untuned"] for row in stated if row["untuned"])
    advised = [row["ratio"] * row["advice"] for row in stated if "advice" in row]
    tuned = f"after {options.tune:g} s of tuning" if options.tune else "untuned"
    lines = [
        f"## {date.today()}: times as fast as ONNX Runtime Web",
        "",
        f"{options.target}, one thread, float32, {tuned}; load average {os.getloadavg()[0]:.1f}.",
        f"Geometric mean of {len(stated)} of {len(rows)} models: "
        + (f"**{mean:.2f}**." if mean else "none could be stated."),
    ]
    if first:
        lines.append(f"With first kernels, by medians of the same pages: {first:.2f}.")
    if advised:
        lines.append(
            f"With advice within an error of {options.max_error:g}, {len(advised)} models: "
            f"**{geomean(advised):.2f}**."
        )
    if left:
        lines.append(f"Not begun for want of time: {', '.join(Path(m).stem for m in left)}.")
    return "\n".join([*lines, "", HEADS, "|---|---|---|---|---|---|---|", *map(as_line, rows), ""])


if __name__ == "__main__":
    sys.exit(main())
