"""Every model in every format, in turns with ONNX Runtime Web: the table of docs/models.md.

    python benchmarks/models/formats.py FOLDER [--minutes 20] [--cells mobilenet-v2/int8,...]

Each cell is measured on one thread, then on two, whose names end with `/2`, with first guesses
unless `--tune` gives seconds, and in turns with the model's float32 bundle too. Cells are kept in
FOLDER/cells.json, one after another, so a run that ends goes on where it was; `--again` measures
them anew, `--files` only makes the models. No cell begins behind the minutes. Rows of the page
whose cells FOLDER does not hold are those of formats.json.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nnjit_studio.verdict.figures import median_interval, paired_ratio

MODELS = {
    "mobilenet-v2": "mobilenet-v2",
    "vit-tiny": "vit-tiny",
    "minilm": "minilm",
    "distilbert": "distilbert",
    "whisper-tiny encoder": "whisper-tiny-encoder",
    "t5-small": "t5-small",
}
FORMATS = {
    "fp32": "",
    "int8": ".dynamic",
    "uint8": ".uint8",
    "q8 QDQ": ".qdq",
    "q4": ".4bit",
    "fp16": ".f16",
    "q4f16": ".q4f16",
}
"""What people call them, and the ending that `quantise.py` gives a file."""
KEPT = Path(__file__).with_suffix(".json")
"""The newest measurement of each cell, which the page shows."""
PAGE = Path(__file__).parents[2] / "docs" / "models.md"
BEGIN, END = "<!-- formats -->\n", "<!-- end of formats -->\n"
NNJIT = [str(Path(sys.executable).parent / "nnjit")]
CELL_S = 240.0
ROUNDS = 11
"""Fewer have no interval of their ratio."""
LEAST = 1.2
"""Below it a cell is named."""

_BARS = (
    f"Less than {LEAST} times as fast as ONNX Runtime Web",
    "More than half of ONNX Runtime Web's memory",
    "Slower than the same model in float32, by the whole interval",
    "Error larger than ONNX Runtime Web's",
)
Cells = dict[str, dict[str, Any]]


def file_of(folder: Path, model: str, format_: str) -> Path:
    """The model's file in a format, made where it is not there."""
    stem = MODELS[model]
    path = folder / f"{stem}{FORMATS[format_]}.onnx"
    if path.exists():
        return path
    source = folder / f"{stem}.onnx"
    part = folder / f"part.{path.name}"
    if not source.exists():
        subprocess.run([*NNJIT, "sample", stem, "-o", str(source)], check=True, capture_output=True)
    if path != source:
        from quantise import FORMATS as WRITERS

        WRITERS[FORMATS[format_][1:]](source, part)
        part.rename(path)
    return path


def bundle_of(model: Path) -> Path:
    """The model's bundle with first guesses, written where it is not there."""
    path = model.with_suffix(".zip")
    if not path.exists():
        part = path.with_name(f"part.{path.name}")
        command = [*NNJIT, "export", str(model), "-o", str(part)]
        subprocess.run(command, check=True, capture_output=True)
        part.rename(path)
    return path


def measured(
    path: Path, seconds: float, threads: str, baseline: Path | None = None
) -> dict[str, Any]:
    """One cell: the row of `nnjit bench models`, or the sentence that refuses it."""
    words = [
        f"--threads={threads}",
        "--cold=0",
        f"--tune={seconds}",
        f"--rounds={ROUNDS}",
        "--json",
    ]
    words += [f"--baseline={baseline}"] if baseline else []
    root = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    command = [*NNJIT, "bench", "models", str(path), *words, *root]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=CELL_S)
        except subprocess.TimeoutExpired:
            return {"failed": f"took longer than {CELL_S:g} s"}
        finally:
            if process.poll() is None:  # Ctrl+C too: it is in a session of its own
                os.killpg(process.pid, signal.SIGTERM)
                process.communicate()
    lines = out.strip().splitlines()
    found = json.loads(lines[-1]) if lines else {"ok": False, "error": err.strip()[-300:]}
    if not found.get("ok"):
        return {"failed": found["error"]}
    (row,) = found["rows"]
    samples = row["samples_ms"]
    ratio = paired_ratio(samples["ours"], samples["ort"])
    return {
        "date": found["date"],
        "cpu": found["cpu"],
        "load": found["load_average"]["after"],
        "ms": {name: median_interval(of).to_json() for name, of in samples.items()},
        "ratio": ratio.to_json() if ratio else None,
        "memory": row["memory_bytes"]["ours"] / row["memory_bytes"]["ort"],
        "of_float32": row["of_baseline"],
        "errors": row["native_err"],
        "tuned_s": seconds,
    }


def table(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Markdown: a table for each number of threads, and below it what the bars say."""
    lines = []
    for ending, threads in ("", "one thread"), ("/2", "two threads"):
        names = [name for name in all_cells(ending) if name in cells]
        if not names:
            continue
        lines += [
            f"| model, {threads} | format | ratio | ours, ms | ONNX Runtime Web, ms | of float32 "
            "| memory | error, ours | error, ONNX Runtime Web |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        lines += [f"| {' | '.join(_row(name, cells[name]))} |" for name in names]
        lines += ["", *_verdict({name: cells[name] for name in names}, threads), ""]
    return "\n".join(lines)


def _row(name: str, cell: Mapping[str, Any]) -> list[str]:
    model, format_ = name.split("/")[:2]
    if "failed" in cell:
        return [model, format_, f"refused: {cell['failed']}", *["-"] * 6]
    return [
        model,
        format_,
        _interval(cell["ratio"], "x", 2),
        _interval(cell["ms"]["ours"]),
        _interval(cell["ms"]["ort"]),
        _interval(cell["of_float32"], "", 2),
        f"{cell['memory']:.0%}",
        *(f"{cell['errors'][n]:.1e}" for n in ("ours", "ort")),
    ]


def _interval(of: Mapping[str, float] | None, unit: str = "", digits: int = 1) -> str:
    if of is None:
        return "-"
    low, middle, high = (f"{of[k]:.{digits}f}" for k in ("low", "median", "high"))
    return f"{middle}{unit} ({low} to {high})"


def _verdict(cells: Mapping[str, Mapping[str, Any]], threads: str) -> Iterator[str]:
    good = {n: c for n, c in cells.items() if c.get("ratio")}
    if not good:
        return
    mean = statistics.geometric_mean(c["ratio"]["median"] for c in good.values())
    tuned = sorted({c["tuned_s"] for c in good.values()})
    yield (
        f"{len(good)} of {len(list(all_cells()))} cells, {threads}, geometric mean {mean:.2f}x, "
        f"after {' or '.join(f'{s:g}' for s in tuned)} s of tuning. Ratios have intervals of "
        "99.9 %, times of 95 %."
    )
    loads = sorted(c["load"][0] for c in good.values())
    dates = sorted({c["date"][:10] for c in good.values()})
    yield (
        f"{' and '.join(sorted({c['cpu'] for c in good.values()}))}, {' to '.join(dates)}; load "
        f"average while they ran {loads[0]} to {loads[-1]}."
    )
    slow = [n for n, c in good.items() if c["ratio"]["median"] < LEAST]
    fat = [n for n, c in good.items() if c["memory"] > 0.5]
    behind = [n for n, c in good.items() if (c["of_float32"] or {"low": 0})["low"] > 1]
    wrong = [n for n, c in good.items() if c["errors"]["ours"] > 1.05 * c["errors"]["ort"] + 1e-5]
    for words, names in zip(_BARS, (slow, fat, behind, wrong), strict=True):
        yield f"{words}: {', '.join(names) or 'none'}."


def all_cells(ending: str = "") -> Iterator[str]:
    """Names of all cells, format by format: each format's row is there before the next begins."""
    for format_ in FORMATS:
        for model in MODELS:
            yield f"{model}/{format_}{ending}"


def write_page(cells: Cells) -> None:
    """Write the table, with the newest cells of those that were not measured now."""
    known: Cells = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    whole = {**known, **cells}
    lines = ",\n".join(f" {json.dumps(n)}: {json.dumps(c)}" for n, c in whole.items())
    KEPT.write_text(f"{{\n{lines}\n}}\n", "utf-8")
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}{table(whole)}{END}{after}", "utf-8")


def run(options: argparse.Namespace, cells: Cells, kept: Path) -> None:
    """Measure what is missing until the minutes are over; each cell is kept at once."""
    began = time.monotonic()
    for name in options.cells.split(",") if options.cells else (*all_cells(), *all_cells("/2")):
        if "ms" in cells.get(name, {}) and not options.again:
            continue
        if time.monotonic() - began > 60 * options.minutes:
            print("The minutes are over; the same command goes on.", flush=True)
            return
        start = time.monotonic()
        model, format_, *threads = name.split("/")
        try:
            path = file_of(options.folder, model, format_)
        except Exception as e:  # tools of ONNX Runtime raise what they like
            cells[name] = {"failed": f"ONNX Runtime's tools make no such file ({str(e)[:120]})"}
        else:
            twin = file_of(options.folder, model, "fp32")
            baseline = None if path == twin or options.files else bundle_of(twin)
            measure = partial(measured, path, options.tune, *(threads or "1"), baseline)
            cells[name] = {} if options.files else measure()
        print(f"{name}: {time.monotonic() - start:.0f} s {_short(cells[name])}", flush=True)
        if not options.files:
            kept.write_text(json.dumps(cells, indent=1))


def _short(cell: Mapping[str, Any]) -> str:
    if not cell.get("ratio"):
        return str(cell.get("failed", ""))
    errors = ", ".join(f"{e:.1e}" for e in cell["errors"].values())
    return f"{cell['ratio']['median']:.2f}x, memory {cell['memory']:.0%}, errors {errors}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--tune", type=float, default=0.0)
    parser.add_argument("--cells", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--files", action="store_true")
    parser.add_argument("--no-page", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    kept = options.folder / "cells.json"
    cells: Cells = json.loads(kept.read_text()) if kept.exists() else {}
    run(options, cells, kept)
    if not options.files and not options.no_page:
        write_page(cells)


if __name__ == "__main__":
    main()
