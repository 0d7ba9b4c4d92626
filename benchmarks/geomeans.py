"""How many times as fast as ONNX Runtime Web: the geometric mean over many models.

`python benchmarks/geomeans.py MODEL ... --minutes 9` runs `nnjit compare` on each MODEL (a file, or
a name of `nnjit sample`) with float32 weights and one thread; with `--tune S` after S seconds of
`nnjit tune --plan`. Open sizes take the first values that the window proposes. What the minutes do
not reach is named and left out.

With `--advise` also `nnjit advise` under an error limit, read in two ways: the best row that keeps
one thread and asks nothing of the page, and the best that the device allows, threads and WebGPU
among them. Both are times the ratio to ONNX Runtime Web as shipped, on one thread; their intervals
hold the ends of both. Beside the second stands ONNX Runtime Web with the same threads or WebGPU.
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
import onnx

from nnjit_studio.bench.report import append
from nnjit_studio.bench.statistics import geomean
from nnjit_studio.compiler.onnx_file.survey import survey
from nnjit_studio.workbench.inputs import roles
from nnjit_studio.workbench.inputs.values import drawn

Ratio = tuple[float, ...]
"""A median with the ends of its interval."""
LIMIT_S = 600.0
"""Of one command."""
ROUNDS_S = 90.0
"""Of a comparison, at most: programs of 3 s a run need them for the pairs of an interval."""
ROW_S = 12.0
"""Of the rounds of a row of advice, at most."""
DEVICE = ("threads", "webgpu", "together")
"""Rows that ask for a device and headers, and leave the model's task as it is."""
HEADS = (
    "| model | ONNX Runtime Web ms | untuned ms | ours ms | ratio | advice, one thread "
    "| advice, the device | ONNX Runtime Web with the same |"
)


def main() -> int:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("models", nargs="+")
    given.add_argument("--tune", type=float, default=0.0, help="seconds for each model, 0 for none")
    given.add_argument("--advise", action="store_true", help="some minutes for each model")
    given.add_argument(
        "--row", action="append", default=[], help="measure this row of advice alone"
    )
    given.add_argument("--gpu", default="hardware", help="adapter for WebGPU, as of `bench models`")
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
            row |= advised(model, page, options, row)
    except (subprocess.SubprocessError, OSError, ValueError, KeyError) as error:
        return {"model": model.stem, "problem": reason(error)}
    return row


def reason(error: Exception) -> str:
    """The last line that a command said, or the error."""
    words = getattr(error, "stderr", "") or str(error)
    return str(words).strip().splitlines()[-1][:160]


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
        [sys.executable, "-m", "nnjit_studio", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
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


def advised(
    model: Path, page: Sequence[str], options: argparse.Namespace, row: Mapping[str, Any]
) -> dict[str, Any]:
    """Both readings of advice as ratios to ONNX Runtime Web on one thread, and the peer beside."""
    asked = [f"--only={name}" for name in options.row]
    asked += ["--max-error", str(options.max_error), "--seconds", str(ROW_S)]
    advice = json.loads(
        command("advise", str(model), *asked, *page, "--gpu", options.gpu, "--json")
    )
    thread, device = best(advice), best(advice, DEVICE)
    shipped = ratio_of(row)
    return {
        "thread": shipped and product(shipped, thread),
        "device": shipped and product(shipped, device),
        "rows": [each and each["name"] for each in (thread, device)],
        "beside": beside(model, page, device, options) if device else None,
    }


def best(advice: Mapping[str, Any], asking: Sequence[str] = ()) -> Mapping[str, Any] | None:
    """The fastest row that the guard lets through and that is told to be faster, of those that
    ask nothing of the page and of the ones named."""
    rows = [
        row
        for row in advice["rows"]
        if row["outcome"] == "faster"
        and not row["refusal"]
        and (not row["asks"] or row["name"] in asking)
    ]
    return max(rows, key=lambda row: row["measured"]["ratio"]["median"], default=None)


def ratio_of(row: Mapping[str, Any]) -> Ratio | None:
    """The ratio that is stated, with its interval."""
    if not (row.get("ratio") and row.get("interval")):
        return None
    return row["ratio"], row["interval"]["low"], row["interval"]["high"]


def product(shipped: Ratio, row: Mapping[str, Any] | None) -> Ratio:
    """A ratio times the gain of a row."""
    if row is None:
        return shipped
    gain = row["measured"]["ratio"]
    ends = gain["median"], gain["low"], gain["high"]
    return tuple(one * other for one, other in zip(shipped, ends, strict=True))


def beside(
    model: Path, page: Sequence[str], row: Mapping[str, Any], options: argparse.Namespace
) -> Ratio | None:
    """The model in that form against ONNX Runtime Web with as many threads, or with its WebGPU."""
    if row["name"] == "webgpu":
        words = ["bench", "models", str(at_its_sizes(model, page)), "--backend", "webgpu"]
        words += ["--gpu", options.gpu, "--tune", "0", "--cold", "0", "--rounds", "24"]
        words += ["--target", options.target, *(["--no-sandbox"] if options.no_sandbox else [])]
    else:
        words = ["compare", str(model), *page, *row["apply"]["options"]]
        words += ["--cold", "1", "--seconds", str(ROUNDS_S)]
    try:
        told = json.loads(command(*words, "--json"))
    except subprocess.SubprocessError as error:  # the rest of the row stands
        print(f"{model.stem}: {reason(error)}", file=sys.stderr)
        return None
    return ratio_of(verdict_of(told) if words[0] == "compare" else of_bench(told))


def at_its_sizes(model: Path, page: Sequence[str]) -> Path:
    """A file without open sizes, which `nnjit bench models` asks for; next to the inputs."""
    if "--inputs" not in page:
        return model
    inputs = Path(page[page.index("--inputs") + 1])
    arrays, made = np.load(inputs), onnx.load(model)
    for each in made.graph.input:
        if each.name in arrays:
            for dim, size in zip(
                each.type.tensor_type.shape.dim, arrays[each.name].shape, strict=True
            ):
                dim.dim_value = size
    onnx.save(made, fixed := inputs.with_name("fixed.onnx"))
    return fixed


def of_bench(told: Mapping[str, Any]) -> dict[str, Any]:
    """The ratio of `nnjit bench models`, as of a comparison."""
    row = told["rows"][0]
    return {"ratio": row["ratio"].get("ort"), "interval": row["intervals"].get("ort")}


def written(ratio: Ratio | None, row: str | None = "") -> str:
    """A cell: the ratio, its interval, and which row of advice it is of."""
    if ratio is None:
        return ""
    of = ", nothing" if row is None else f", {row}" if row else ""
    return f"{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f}){of}"


def as_line(row: Mapping[str, Any]) -> str:
    """A row of the table."""
    times = [f"{row[who]:.3g}" if row.get(who) else "" for who in ("ort", "untuned", "ours")]
    thread, device = row.get("rows", ("", ""))
    cells = [
        written(ratio_of(row)) or row.get("problem", ""),
        written(row.get("thread"), thread),
        written(row.get("device"), device),
        written(row.get("beside")),
    ]
    return f"| {' | '.join([row['model'], *times, *cells])} |"


def mean_of(name: str, ratios: Sequence[Ratio | None]) -> str:
    """A sentence with the geometric mean of what is known, and the means of the intervals' ends."""
    known = [ratio for ratio in ratios if ratio]
    if not known:
        return f"{name}: none could be stated."
    middle, low, high = (geomean(each) for each in zip(*known, strict=True))
    return (
        f"{name}, {len(known)} of {len(ratios)} models: **{middle:.2f}** ({low:.2f} to {high:.2f})."
    )


def report(
    rows: Sequence[Mapping[str, Any]], left: Sequence[str], options: argparse.Namespace
) -> str:
    """A dated section with the table and the geometric means of what could be stated."""
    stated = [row for row in rows if row.get("ratio")]
    first = geomean(row["ort"] / row["untuned"] for row in stated if row["untuned"])
    tuned = f"after {options.tune:g} s of tuning" if options.tune else "untuned"
    lines = [
        f"## {date.today()}: times as fast as ONNX Runtime Web",
        "",
        f"{options.target}, one thread, float32, {tuned}; load average {os.getloadavg()[0]:.1f}. "
        "Geometric means, in brackets those of the intervals' ends.",
        mean_of("As it is", [ratio_of(row) for row in rows]),
    ]
    if first:
        lines.append(f"With first kernels, by medians of the same pages: {first:.2f}.")
    if any("thread" in row for row in rows):
        within = f"within an error of {options.max_error:g}"
        lines += [
            mean_of(f"With advice {within} on one thread", [row.get("thread") for row in rows]),
            mean_of(
                f"With any row that the device allows, {within}",
                [row.get("device") for row in rows],
            ),
            mean_of(
                "Of these against ONNX Runtime Web with the same threads or WebGPU",
                [row.get("beside") for row in rows],
            ),
        ]
    if left:
        lines.append(f"Not begun for want of time: {', '.join(Path(m).stem for m in left)}.")
    table = [HEADS, "|---" * (HEADS.count("|") - 1) + "|", *map(as_line, rows)]
    return "\n".join([*lines, "", *table, ""])


if __name__ == "__main__":
    sys.exit(main())
