"""Any .onnx files, as they are: one bundle each without an option, at several sizes in Chromium.

    python benchmarks/world/files.py FILE... --out WORK

Sizes are drawn in the ranges that the bundle says it takes, from its smallest on; arrays are
seeded. Every output is compared with native ONNX Runtime's and, where one is off by more than 1e-3,
native ONNX Runtime with itself without its optimisations: a file whose results hang on roundings is
told by that. One line of JSON for each file; ends with 1 if one is wrong or has no bundle.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import world
from world import Feeds, onnxruntime

from nnjit_studio.compiler.any_size.arrays import made_arrays
from nnjit_studio.compiler.any_size.inputs import lengths_of
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.errors import NnjitError
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.size import Dim

EXPORT_S = 900
"""For one bundle."""
FAR, MOST_ELEMENTS = 3, 1_500_000
"""How many times its example a size is at most, and elements of the largest input."""
ENDS = (256, 50, 10, 2, 1)
"""Of the ranges of whole numbers, the first that ONNX Runtime runs: some are places in a table."""
TRIES = 200
Shapes = Mapping[str, tuple[int, ...]]


class Arrays:
    """Arrays for a file at any sizes, of the kinds that its bundle was made with."""

    def __init__(self, path: Path, session: Any, plan: OpenPlan | None) -> None:
        self.like = made_arrays(path)
        inputs = Trial(path, self.like).inputs
        self.lengths = lengths_of(inputs, self.like)
        self.values = {p.name: p.value for p in plan.inputs if p.value is not None} if plan else {}
        self.session, self.rng = session, np.random.default_rng(14)

    def at(self, shapes: Shapes) -> tuple[Feeds, list[Any]]:
        """Arrays and what ONNX Runtime makes of them; its error where it makes nothing."""
        for end in ENDS:
            feeds = {name: self._drawn(name, shapes, end) for name in shapes}
            try:
                return feeds, self.session.run(None, feeds)
            except Exception as e:  # ONNX Runtime's own, of several kinds
                error = e
        raise error

    def _drawn(self, name: str, shapes: Shapes, end: int) -> Any:
        shape, dtype = shapes[name], self.like[name].dtype
        if name in self.values:
            return np.full(shape, self.values[name], dtype)
        if name in self.lengths:
            other, axis = self.lengths[name]
            most = shapes[other][axis]
            lengths = self.rng.integers(max(1, most // 2), most + 1, shape)
            lengths[0] = most
            return lengths.astype(dtype)
        if dtype.kind == "f":
            return world.drawn(shape, self.rng).astype(dtype)
        whole = np.ones(shape) if "mask" in name else self.rng.integers(0, end, shape)
        return whole.astype(dtype)


def drawn_sizes(dims: Sequence[Dim], example: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The smallest, the example, and sizes on both sides of it; batches stay small."""
    rng = random.Random(14)
    yield {d.name: _within(d, d.low) for d in dims}
    yield dict(example)
    for _ in range(TRIES):
        sizes = {}
        for d in dims:
            n = example[d.name]
            most = 4 * n + 5 if n <= 8 else FAR * n
            low = d.low if rng.random() < 0.4 else min(n, most)
            sizes[d.name] = _within(d, rng.randint(low, max(low, most)))
        yield sizes


def _within(dim: Dim, n: int) -> int:
    n = min(max(n, dim.low), dim.high)
    up, down = -(-n // dim.step) * dim.step, n // dim.step * dim.step
    return up if up <= dim.high else down


def exported(path: Path, folder: Path) -> dict[str, Any]:
    """Seconds and words of the unpacked bundle; its error where there is none."""
    zipped, start = folder / "bundle.zip", time.monotonic()
    command = [world.NNJIT, "export", str(path), "-o", str(zipped), "--json"]
    how: dict[str, Any] = {"capture_output": True, "text": True, "check": False}
    try:
        done = subprocess.run(command, timeout=EXPORT_S, **how)
    except subprocess.TimeoutExpired:
        return {"seconds": EXPORT_S, "error": f"There is no bundle after {EXPORT_S} s."}
    found = {"seconds": round(time.monotonic() - start, 1), "words": done.stderr[-3000:]}
    if done.returncode:
        return {**found, "error": world.answer(done.stdout).get("error", done.stderr)}
    world.unpack(zipped, folder)
    return {**found, "nbytes": zipped.stat().st_size}


def open_plan(folder: Path) -> OpenPlan | None:
    """The unpacked bundle's plan, if it is one for any size."""
    manifest = json.loads((folder / "bundle/manifest.json").read_text())
    file = folder / "bundle" / manifest["plan"]["file"]
    return OpenPlan.from_json(json.loads(file.read_text())) if manifest.get("dims") else None


def tried(path: Path, folder: Path, count: int, no_sandbox: bool) -> dict[str, Any]:
    """A file's row."""
    session = onnxruntime.InferenceSession(path)
    inputs = {i.name: i.shape for i in session.get_inputs()}
    row = {"file": path.name, "inputs": inputs, **exported(path, folder)}
    if "error" in row:
        return row
    plan = open_plan(folder)
    arrays = Arrays(path, session, plan)
    dims, example = (plan.dims, plan.example) if plan else ((), {})
    row["ranges"] = [f"{d}: {d.text}" for d in dims]
    runs, seen, refused = [], [], []
    for sizes in drawn_sizes(dims, example):
        shapes = {name: array.shape for name, array in arrays.like.items()}
        if plan:
            shapes = {port.name: port.at(sizes).spec.shape for port in plan.inputs}
        large = max(int(np.prod(shape)) for shape in shapes.values()) > MOST_ELEMENTS
        if len(runs) < count and shapes not in seen and not (large and len(seen) > 1):
            seen.append(shapes)
            try:
                runs.append(arrays.at(shapes))
            except Exception as e:  # as above: what the bundle takes and ONNX Runtime does not
                refused.append(f"{sizes}: {str(e)[:300]}")
    row["refused by ONNX Runtime"] = refused
    row["sizes"] = [" ".join("x".join(map(str, a.shape)) for a in f.values()) for f, _ in runs]
    row["errors"] = world.page_errors(session, runs, folder, no_sandbox)
    if not right(row):
        row["ONNX Runtime and itself"] = itself(path, runs)
    return row


def right(row: Mapping[str, Any]) -> bool:
    errors = row.get("errors")
    return bool(errors) and all(error <= world.TOLERANCE for error in errors)


def itself(path: Path, runs: Sequence[tuple[Feeds, list[Any]]]) -> list[float]:
    """How far native ONNX Runtime without optimisations is from itself, by size."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain, found = onnxruntime.InferenceSession(path, options), []
    for feeds, outputs in runs:
        pairs = zip(plain.run(None, feeds), outputs, strict=True)
        found.append(max(world.apart(got, expected) for got, expected in pairs))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="Folder for bundles and arrays.")
    parser.add_argument("--sizes", type=int, default=7, help="How many are run.")
    parser.add_argument("--no-sandbox", action="store_true")
    given = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    rows = []
    for path in given.files:
        folder = given.out / path.stem
        folder.mkdir(parents=True, exist_ok=True)
        try:
            rows.append(tried(path, folder, given.sizes, given.no_sandbox))
        except NnjitError as e:
            rows.append({"file": path.name, "error": e.error})
        print(json.dumps(rows[-1]), flush=True)
        shutil.rmtree(folder)
    sys.exit(0 if all(map(right, rows)) else 1)


if __name__ == "__main__":
    main()
