"""The manifest of a bundle: what files it holds, and what they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, TypeVar

from nnjit_studio.errors import BundleError
from nnjit_studio.model import DTYPE_BYTES, Generation, TensorSpec
from nnjit_studio.records import GPU_TIERS, TIERS

FORMAT = "nnjit-bundle"
VERSION = 1
MANIFEST_FILE = "manifest.json"
README_FILE = "README.txt"
T = TypeVar("T")


@dataclass(frozen=True)
class BundleFile:
    """A file of the bundle: its path from the root, its sha256 and its size in bytes."""

    file: str
    sha256: str
    nbytes: int


@dataclass(frozen=True)
class BundleKernel:
    """The kernel of a workload in its tiers, all compiled from one candidate."""

    workload: str
    settings: str
    panels: tuple[tuple[int, int], ...]
    parallel_extent: int
    tiers: Mapping[str, BundleFile]


@dataclass(frozen=True)
class Manifest:
    """Everything about a bundle but the contents of its files.

    ``samples`` holds example inputs, row-major and little endian, one file each.
    ``generation`` says how a decoder makes text; ``plan`` is then its decode plan,
    and ``prefill`` the file of the other one, if there is one. ``gpu_kernels`` are
    for WebGPU: one for each workload, or none at all.
    """

    name: str
    generator: str
    created: str  # ISO 8601, UTC
    plan: BundleFile
    weights: BundleFile
    kernels: tuple[BundleKernel, ...]
    engine: tuple[BundleFile, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    tuned_on: Mapping[str, Any]
    samples: tuple[tuple[TensorSpec, BundleFile], ...] = ()
    generation: Generation | None = None
    prefill: BundleFile | None = None
    gpu_kernels: tuple[BundleKernel, ...] = ()

    @property
    def files(self) -> tuple[BundleFile, ...]:
        """Every file that the manifest names, each path once."""
        named = [self.plan, self.weights, *self.engine, *(file for _, file in self.samples)]
        named += [self.prefill] if self.prefill else []
        kernels = (*self.kernels, *self.gpu_kernels)
        named += [file for kernel in kernels for file in kernel.tiers.values()]
        return tuple({entry.file: entry for entry in named}.values())

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "generator": self.generator,
            "created": self.created,
            "plan": asdict(self.plan),
            "weights": asdict(self.weights),
            "kernels": [
                {
                    "workload": kernel.workload,
                    "settings": kernel.settings,
                    "panels": [list(panel) for panel in kernel.panels],
                    "parallel_extent": kernel.parallel_extent,
                    "tiers": {tier: asdict(kernel.tiers[tier]) for tier in sorted(kernel.tiers)},
                }
                for kernel in self.kernels
            ],
            "engine": [asdict(file) for file in self.engine],
            "inputs": [_spec_json(spec) for spec in self.inputs],
            "outputs": [_spec_json(spec) for spec in self.outputs],
            "tuned_on": dict(self.tuned_on),
        }
        if self.samples:
            samples = [{**_spec_json(spec), **asdict(file)} for spec, file in self.samples]
            data["samples"] = {"inputs": samples}
        if self.gpu_kernels:
            data["gpu_kernels"] = [
                {
                    "workload": kernel.workload,
                    "settings": kernel.settings,
                    "tiers": {tier: asdict(kernel.tiers[tier]) for tier in sorted(kernel.tiers)},
                }
                for kernel in self.gpu_kernels
            ]
        if self.generation:
            prefill = asdict(self.prefill) if self.prefill else None
            data["generation"] = {"facts": asdict(self.generation), "prefill": prefill}
        return data

    @classmethod
    def from_json(cls, data: Any) -> Manifest:
        """Read a manifest that may come from anybody.

        Raises
        ------
        BundleError
            When it is not a manifest of a version that is known, or a field is
            missing or wrong; the message names the field.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise BundleError(
                "The manifest is not one of an NNJIT bundle.", "Export the bundle again."
            )
        if data.get("version") != VERSION:
            raise BundleError(
                f"The bundle has format version {data.get('version')!r}, "
                f"this NNJIT Studio reads {VERSION}.",
                "Use a matching NNJIT Studio, or export the bundle again.",
            )
        try:
            return _read_manifest(data)
        except ValueError as e:
            raise BundleError(
                f"The manifest of the bundle is wrong: {e}.", "Export the bundle again."
            ) from e


def safe_path(path: str) -> bool:
    """Whether a path of a zip stays inside the folder it is unpacked to, on any system."""
    if not path or any(c in path for c in '\\:*?"<>|') or not path.isprintable():
        return False
    # PurePosixPath drops "." and doubled slashes: what it changes was not normal.
    parts = PurePosixPath(path).parts
    return str(PurePosixPath(path)) == path and ".." not in parts and parts[0] not in ("/", "//")


def _read_manifest(data: Mapping[str, Any]) -> Manifest:
    tuned_on = _get(data, "tuned_on", dict)
    samples = _get(data, "samples", dict) if "samples" in data else {"inputs": []}
    text = _get(data, "generation", dict) if "generation" in data else {}
    return Manifest(
        name=_get(data, "name", str),
        generator=_get(data, "generator", str),
        created=_get(data, "created", str),
        plan=_file(_get(data, "plan", dict)),
        weights=_file(_get(data, "weights", dict)),
        kernels=_each(data, "kernels", _kernel),
        engine=_each(data, "engine", _file),
        inputs=_each(data, "inputs", _spec),
        outputs=_each(data, "outputs", _spec),
        tuned_on=tuned_on,
        samples=_each(samples, "inputs", lambda item: (_spec(item), _file(item))),
        generation=_generation(_get(text, "facts", dict)) if text else None,
        prefill=_file(_get(text, "prefill", dict)) if text.get("prefill") else None,
        gpu_kernels=_each(data, "gpu_kernels", _gpu_kernel) if "gpu_kernels" in data else (),
    )


def _generation(data: Mapping[str, Any]) -> Generation:
    names = ("ids", "mask", "logits", "positions", "slot", "last")
    parts = [_get(data, name, str) for name in names]
    return Generation(_count(data, "capacity", 1), _count(data, "rows"), *parts)


def _get(data: Mapping[str, Any], name: str, kind: type[T]) -> T:
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name!r} is missing or not of type {kind.__name__}")
    return value


def _each(data: Mapping[str, Any], name: str, read: Callable[[Any], T]) -> tuple[T, ...]:
    items = _get(data, name, list)
    if not all(isinstance(item, dict) for item in items):
        raise ValueError(f"{name!r} holds something else than objects")
    return tuple(read(item) for item in items)


def _count(data: Mapping[str, Any], name: str, least: int = 0) -> int:
    value = _get(data, name, int)
    if value < least:
        raise ValueError(f"{name!r} is below {least}")
    return value


def _file(data: Mapping[str, Any]) -> BundleFile:
    file = BundleFile(_get(data, "file", str), _get(data, "sha256", str), _count(data, "nbytes"))
    if not safe_path(file.file):
        raise ValueError(f"the path {file.file!r} leaves the bundle")
    if not re.fullmatch("[0-9a-f]{64}", file.sha256):
        raise ValueError(f"the sha256 of {file.file!r} is not 64 hex digits")
    return file


def _kernel(data: Mapping[str, Any]) -> BundleKernel:
    workload = _get(data, "workload", str)
    panels = _get(data, "panels", list)
    for panel in panels:
        if not (
            isinstance(panel, list)
            and len(panel) == 2
            and all(type(n) is int for n in panel)
            and panel[0] >= 0
            and panel[1] >= 1
        ):
            raise ValueError(f"the panels of {workload} are not [argument, width]")
    return BundleKernel(
        workload,
        _get(data, "settings", str),
        tuple((argument, width) for argument, width in panels),
        _count(data, "parallel_extent", 1),
        _tiers(data, workload, TIERS),
    )


def _gpu_kernel(data: Mapping[str, Any]) -> BundleKernel:
    workload = _get(data, "workload", str)
    settings = _get(data, "settings", str)
    return BundleKernel(workload, settings, (), 1, _tiers(data, workload, GPU_TIERS))


def _tiers(data: Mapping[str, Any], workload: str, known: tuple[str, ...]) -> dict[str, BundleFile]:
    tiers = _get(data, "tiers", dict)
    if not set(tiers) <= set(known) or not all(isinstance(t, dict) for t in tiers.values()):
        raise ValueError(f"the tiers of {workload} are not of {', '.join(known)}")
    return {tier: _file(tiers[tier]) for tier in known if tier in tiers}


def gpu_file_name(sha256: str) -> str:
    """Where a kernel document lies in the bundle."""
    return f"kernels/{sha256}.json"


def _spec(data: Mapping[str, Any]) -> TensorSpec:
    name, dtype, shape = (
        _get(data, "name", str),
        _get(data, "dtype", str),
        _get(data, "shape", list),
    )
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"tensor {name!r} has the unknown dtype {dtype!r}")
    if not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"the shape of tensor {name!r} is not a list of sizes")
    return TensorSpec(name, tuple(shape), dtype)


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
