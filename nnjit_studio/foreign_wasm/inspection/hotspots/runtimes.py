"""Jobs for the page that runs a model in somebody's runtime: the model, and inputs for it."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnjit_studio.compiler.onnx_file.check import load_model
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import ModelError
from nnjit_studio.foreign_wasm.inspection.hotspots.pages import Sampling, sample_runtime
from nnjit_studio.foreign_wasm.inspection.hotspots.records import Hotspots
from nnjit_studio.foreign_wasm.inspection.hotspots.samples import hotspots
from nnjit_studio.model import TensorSpec
from nnjit_studio.model.feeds import seeded_feeds
from nnjit_studio.model.given_shapes import GivenShapes
from nnjit_studio.verdict.case import Case, Entry, link
from nnjit_studio.verdict.measure import POLICY

RUNTIMES = ("ort",)
WARMUP_S = 2.0
"""Until V8 has compiled with its optimising compiler what runs often."""

_NAMES = {
    onnx.TensorProto.FLOAT: ("f32", "float32"),
    onnx.TensorProto.INT64: ("i64", "int64"),
    onnx.TensorProto.INT32: ("i32", "int32"),
    onnx.TensorProto.INT8: ("i8", "int8"),
    onnx.TensorProto.UINT8: ("u8", "uint8"),
    onnx.TensorProto.BOOL: ("bool", "bool"),
}
"""Our dtype and the runtime's name of it."""


def write_job(
    path: Path,
    folder: Path,
    shapes: GivenShapes,
    given: Mapping[str, NDArray[Any]] | None,
    seconds: float,
    threads: int,
) -> None:
    """Put a model, its inputs and ``job.json`` into the folder that the page reads.

    Our importer has no part in it: what the runtime takes is enough. Inputs that
    are not given are drawn.

    Raises
    ------
    ModelError
        When the model cannot be read, or the shape of an input is open.
    """
    specs = input_specs(path, shapes)
    feeds = {**seeded_feeds([spec for spec, _ in specs]), **(given or {})}
    inputs = []
    for n, (spec, kind) in enumerate(specs):
        array = np.ascontiguousarray(feeds[spec.name])
        (folder / f"input-{n}.bin").write_bytes(array.tobytes())
        inputs.append(
            {"name": spec.name, "type": kind, "dims": array.shape, "file": f"input-{n}.bin"}
        )
    for file in path.parent.glob(f"{glob.escape(path.stem)}*"):
        if file.is_file() and (file.suffix != ".onnx" or file == path):
            link(file, folder / file.name)
    job = {
        "onnx": path.name,
        "inputs": inputs,
        "threads": threads,
        "seconds": seconds,
        "warmup_s": WARMUP_S,
    }
    (folder / "job.json").write_text(json.dumps(job))


def sample_case(case: Case, entry: Entry, node_modules: Path, how: Sampling) -> Hotspots:
    """Sample one of a case's sessions in ONNX Runtime Web.

    Raises
    ------
    TargetError, PageError, WasmError
        When the browser does not start, the page fails, or its module cannot be read.
    """
    job = {
        **case.job(POLICY, None, watched=False),
        "onnx": entry.source,
        "external": entry.external,
        "wasm": entry.wasm,
        "seconds": how.seconds,
        "warmup_s": WARMUP_S,
    }
    (case.folder / "job.json").write_text(json.dumps(job))
    with PageServer({"files": case.folder, "node_modules": node_modules}) as server:
        samples = sample_runtime(server, "hotspots.html", how)
    return hotspots(browsers.version(how.browser), samples)


def input_specs(path: Path, shapes: GivenShapes) -> list[tuple[TensorSpec, str]]:
    """The inputs of a model, with the runtime's names of their types.

    Raises
    ------
    ModelError
        As :func:`write_job`.
    """
    graph = load_model(path).graph
    weights = {tensor.name for tensor in graph.initializer}
    return [_spec(value, shapes) for value in graph.input if value.name not in weights]


def _spec(value: onnx.ValueInfoProto, shapes: GivenShapes) -> tuple[TensorSpec, str]:
    tensor = value.type.tensor_type
    if tensor.elem_type not in _NAMES:
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type)
        raise ModelError(f"The input {value.name!r} is {kind}, for which no values are drawn.")
    dtype, kind = _NAMES[tensor.elem_type]
    dims = shapes.shapes.get(value.name) or shapes.hints.get(value.name)
    if dims is None:
        dims = tuple(_dim(value.name, dim, shapes) for dim in tensor.shape.dim)
    return TensorSpec(value.name, tuple(dims), dtype), kind


def _dim(name: str, dim: onnx.TensorShapeProto.Dimension, shapes: GivenShapes) -> int:
    size: int = dim.dim_value or shapes.dims.get(dim.dim_param, 0)
    if size < 1:
        raise ModelError(
            f"The dimension {dim.dim_param or '?'!r} of the input {name!r} is open.",
            f"Give it with --dim {dim.dim_param or 'NAME'}=NUMBER, or --inputs.",
        )
    return size
