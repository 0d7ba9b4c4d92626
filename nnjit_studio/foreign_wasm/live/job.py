"""What a page needs to serve a model with a runtime whose kernels can be exchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from nnjit_studio.errors import ModelError, UserError, WasmError
from nnjit_studio.foreign_wasm.apart import whole
from nnjit_studio.foreign_wasm.live.dispatch import dispatch_module
from nnjit_studio.foreign_wasm.live.rewrite import swappable
from nnjit_studio.foreign_wasm.model_inputs import input_specs, read_model, written
from nnjit_studio.foreign_wasm.turbo.kernels.callers import refused
from nnjit_studio.foreign_wasm.turbo.kernels.find import find
from nnjit_studio.foreign_wasm.turbo.kernels.gate import REFERENCE, SCRATCH_PAGES
from nnjit_studio.foreign_wasm.turbo.kernels.module import donor_module
from nnjit_studio.model.feeds import seeded_feeds
from nnjit_studio.model.given_shapes import GivenShapes
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.module import Module

LIBRARIES = {"": "ort.wasm.min.mjs", ".jspi": "ort.jspi.min.mjs"}
"""Of ONNX Runtime Web's package, by what stands behind the module's first name."""


@dataclass(frozen=True)
class Exchange:
    """What is made of a module whose kernels donors may replace.

    Attributes
    ----------
    kernels
        Indices of functions, in the order of the table.
    originals
        A module of these functions as they were, with a memory of its own.
    swappable
        The module with them behind a table.
    shared
        Whether its memory is.
    """

    kernels: tuple[int, ...]
    originals: bytes
    swappable: bytes
    shared: bool


@dataclass(frozen=True)
class Runtime:
    """A runtime's file, which was read, and what is made of it."""

    file: Path
    made: Exchange

    @property
    def folder(self) -> Path:
        """Where its library and glue lie."""
        return self.file.parent


def open_runtime(file: Path) -> Runtime:
    """Read a module and find its kernels.

    Raises
    ------
    UserError
        When the library that belongs to it is not beside it.
    WasmError
        When it is no module, or has no function that a donor may replace.
    """
    runtime = Runtime(file, whole(_exchange, file, file.name))
    _library(runtime)
    return runtime


def _exchange(module: Module, name: str) -> Exchange:
    found = find(module)
    reasons = refused(module, found)
    kernels = tuple(f for f in found if f not in reasons)
    if not kernels:
        why = " ".join(f"Function {f}: {reason}" for f, reason in reasons.items())
        raise WasmError(
            f"{name} has no kernel that can be exchanged. {why}".strip(),
            "Products of ONNX Runtime Web's builds for the processor are known.",
        )
    return exchange(module, kernels)


def exchange(module: Module, kernels: tuple[int, ...]) -> Exchange:
    """The modules for an exchange of these functions.

    Raises
    ------
    WasmError
        When the module has been rewritten already, or holds too many kernels.
    """
    originals = edit.lift(module, kernels, SCRATCH_PAGES)
    return Exchange(kernels, originals, swappable(module, kernels), module.memories[0].shared)


def write_job(
    runtime: Runtime,
    model: Path,
    feeds: Mapping[str, NDArray[Any]] | None,
    threads: int,
    folder: Path,
) -> None:
    """Write what ``resources/live/page.js`` reads to a folder.

    Raises
    ------
    ModelError
        When the model cannot be read, or an input has an open size and no array is given for it.
    UserError
        When a given input has a type that is not passed on.
    """
    ports = read_model(model, folder / "model.onnx")
    given = feeds if feeds is not None else _drawn(ports)
    library, glue = _library(runtime)
    made = runtime.made
    modules = {
        "wasm": made.swappable,
        "dispatch": dispatch_module(len(made.kernels)),
        "originals": made.originals,
        "reference": donor_module(REFERENCE, False, made.shared),
        "fused": donor_module(REFERENCE, True, made.shared),
    }
    for name, data in modules.items():
        (folder / f"{name}.wasm").write_bytes(data)
    job = {
        **{name: f"files/{name}.wasm" for name in modules},
        "library": f"runtime/{library}",
        "glue": f"runtime/{glue}",
        "functions": [f"f{index}" for index in made.kernels],
        "onnx": "files/model.onnx",
        "threads": threads,
        "inputs": [{**told, "file": f"files/{told['file']}"} for told in written(given, folder)],
    }
    (folder / "job.json").write_text(json.dumps(job))


def _library(runtime: Runtime) -> tuple[str, str]:
    """Names of the library's module and of the glue."""
    flavour = Path(runtime.file.stem).suffix
    glue = f"{runtime.file.stem}.mjs"
    library = LIBRARIES.get(flavour)
    if library is None:
        raise UserError(
            f"{runtime.file.name} is a build whose library is not known.",
            "Give ort-wasm-simd-threaded.wasm of onnxruntime-web.",
        )
    missing = [name for name in (library, glue) if not (runtime.folder / name).is_file()]
    if missing:
        raise UserError(
            f"There is no {missing[0]} beside {runtime.file.name}.",
            "Give the file in the folder dist of onnxruntime-web.",
        )
    return library, glue


def _drawn(ports: Sequence[onnx.ValueInfoProto]) -> Mapping[str, NDArray[Any]]:
    try:
        return seeded_feeds(input_specs(ports, GivenShapes()))
    except ModelError as error:
        raise ModelError(error.error, "Give arrays for the inputs with --inputs.") from error
