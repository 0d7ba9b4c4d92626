"""What a page that compares sessions of one model reads, and what it uploads."""

from __future__ import annotations

import gzip
import mmap
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.errors import UserError
from nnjit_studio.model import NUMPY_DTYPES, TensorSpec
from nnjit_studio.verdict.figures import relative_error

PLACE = "model"
"""Folder of the .onnx file in a case's folder."""
OURS, ORT, LITERT = "nnjit", "ort", "litert"
TURBO = "turbo"
"""Name of ONNX Runtime Web with another build of its module, and of that file."""
DATA_SUFFIXES = (".data", ".onnx_data", ".bin", ".weights", ".pb")
"""Of external data that is not named after its model."""
NOT_SHIPPED = ("bench/", f"files/{PLACE}/", "files/job.json", "files/input-", "weights.bin")
"""Of what the page reads: its own scaffolding, the data, and the weights, which all need."""
SHARDS = "weights"
"""The folder of weights in several files."""


@dataclass(frozen=True)
class Entry:
    """A session that the page opens."""

    name: str
    engine: str
    """:data:`OURS`, :data:`ORT` or :data:`LITERT`."""
    source: str
    """Manifest or model, from the case's folder."""
    external: tuple[str, ...] = ()
    """Files of a model's weights."""
    provider: str = "wasm"
    build: str = "ort.wasm.min.mjs"
    """The file of ONNX Runtime Web's package that is loaded."""
    wasm: str = ""
    """Of ONNX Runtime Web: the module that is loaded in place of the package's, from the case's
    folder."""


@dataclass(frozen=True)
class Case:
    """A model in the folder that the page reads as ``files/``."""

    folder: Path
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    threads: int
    entries: Sequence[Entry] = field(default_factory=tuple)
    reference: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What the outputs are compared with; those of the first peer where there is none."""

    def job(self, policy: RoundsPolicy, seconds: float | None, watched: bool) -> dict[str, Any]:
        """What the page is to do, for ``resources/bench/models.js``."""
        inputs = [
            {
                "name": spec.name,
                "type": NUMPY_DTYPES[spec.dtype].name,
                "dims": spec.shape,
                "file": input_file(spec.name),
            }
            for spec in self.inputs
        ]
        return {
            "threads": self.threads,
            "contenders": [asdict(entry) for entry in self.entries],
            "policy": asdict(policy),
            "budget_ms": None if seconds is None else 1e3 * seconds,
            "watched": watched,
            "inputs": inputs,
            "outputs": [{"name": spec.name, "dims": spec.shape} for spec in self.outputs],
        }


def ort_entry(folder: Path, onnx: Path) -> Entry:
    """The model as ONNX Runtime Web reads it, laid into the folder with its external data."""
    place = folder / PLACE
    files = files_of(onnx)
    place.mkdir(exist_ok=True)
    for file in files:
        if not (place / file.name).exists():
            link(file, place / file.name)
    external = tuple(file.name for file in files if file.name != onnx.name)
    return Entry(ORT, ORT, f"{PLACE}/{onnx.name}", external)


def ort_entries(folder: Path, onnx: Path, module: Path | None) -> list[Entry]:
    """The same, and once more with this module in the place of the package's own."""
    ort = ort_entry(folder, onnx)
    if module is None:
        return [ort]
    file = f"{TURBO}.wasm"
    link(module, folder / file)
    return [ort, replace(ort, name=TURBO, wasm=file)]


def litert_entry(folder: Path, onnx: Path) -> Entry:
    """The .tflite file next to the model, which a converter has made of it.

    Raises
    ------
    UserError
        When there is none.
    """
    file = onnx.with_suffix(".tflite")
    if not file.is_file():
        raise UserError(
            f"LiteRT.js reads .tflite files, and there is no {file.name} next to {onnx.name}.",
            "Convert the model (onnx2tf -i MODEL -kat INPUTS), or leave litert out of --peers.",
        )
    (folder / PLACE).mkdir(exist_ok=True)
    link(file, folder / PLACE / file.name)
    return Entry(LITERT, LITERT, f"{PLACE}/{file.name}")


def write_inputs(folder: Path, feeds: Mapping[str, NDArray[Any]]) -> None:
    """One file of numbers for each input."""
    for name, data in feeds.items():
        (folder / input_file(name)).write_bytes(np.ascontiguousarray(data).tobytes())


def input_file(name: str) -> str:
    return "input-" + "".join(c if c.isalnum() else "_" for c in name) + ".bin"


def files_of(onnx: Path) -> list[Path]:
    """The model and its external data: files of its folder that it names."""
    siblings = [f for f in onnx.parent.iterdir() if f.suffix != ".onnx" and f.is_file()]
    if not siblings or not onnx.stat().st_size:
        return [onnx]
    with onnx.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as model:
        likely = [f for f in siblings if f.suffix in DATA_SUFFIXES or f.stem.startswith(onnx.stem)]
        return [onnx, *sorted(f for f in likely if model.find(f.name.encode()) >= 0)]


def link(file: Path, place: Path) -> None:
    """A second name needs no copy, but works on one disk only."""
    try:
        os.link(file.resolve(), place)  # of a link, what it leads to
    except OSError:
        shutil.copyfile(file, place)


def uploaded(
    specs: Sequence[TensorSpec], uploads: Mapping[str, bytes], name: str
) -> dict[str, NDArray[Any]]:
    """The outputs that a session handed in, flat, by their names."""
    return {
        spec.name: np.frombuffer(uploads[f"{name}-{spec.name}"], NUMPY_DTYPES[spec.dtype])
        for spec in specs
    }


def worst_error(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> float:
    """Largest error of an output over its largest value.

    Raises
    ------
    BugError
        As :func:`~nnjit_studio.verdict.figures.relative_error`.
    """
    return max(
        relative_error(value, expected[name].astype(np.float64).reshape(-1))
        for name, value in found.items()
    )


def shipped_bytes(served: Iterable[tuple[str, Path]]) -> int:
    """Compressed bytes of what a visitor loads before the weights.

    Parameters
    ----------
    served
        Addresses below the server's token, and the files that answered them.
    """
    paths = {
        path: path.stat().st_mtime_ns
        for address, path in served
        if not address.startswith(NOT_SHIPPED[:-1]) and not is_weights(path)
    }
    return sum(_compressed(path, changed) for path, changed in paths.items())


def is_weights(path: Path) -> bool:
    """Whether a file of a bundle holds weights, all of them or a part."""
    return bool({path.name, path.parent.name} & {NOT_SHIPPED[-1], SHARDS})


@cache
def _compressed(path: Path, changed_ns: int) -> int:
    return len(gzip.compress(path.read_bytes(), 6))
