"""The manifest of a bundle: what files it holds, and what they are."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

import msgspec

from nnjit_studio.bundle.demo import INPUTS as DEMO_INPUTS
from nnjit_studio.bundle.demo import NO_DEMO, Demo
from nnjit_studio.bundle.demo import OUTPUTS as DEMO_OUTPUTS
from nnjit_studio.errors import BundleError
from nnjit_studio.model import DTYPE_BYTES, Generation, TensorSpec
from nnjit_studio.model.size import Dim
from nnjit_studio.records import GPU_TIERS, TIERS

FORMAT = "nnjit-bundle"
VERSION = 1
SHARDS_VERSION = 2
"""Of a bundle whose weights lie in several files."""
MANIFEST_FILE = "manifest.json"
README_FILE = "README.txt"
_UNSEALED = "0" * 64


@dataclass(frozen=True)
class BundleFile:
    """A file of the bundle: its path from the root, its sha256 and its size in bytes."""

    file: str
    sha256: str
    nbytes: int


@dataclass(frozen=True)
class BundleKernel:
    """The kernel of a workload in its tiers, all compiled from one candidate.

    One for WebGPU has no panels, and its extent is 1.
    """

    workload: str
    settings: str
    panels: tuple[tuple[int, int], ...] = ()
    parallel_extent: int = 1
    tiers: Mapping[str, BundleFile] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialArg:
    """An argument of a kernel in random memory: its values lie in ``low..high``, those of floats
    have magnitudes from 0.25 of the larger end."""

    role: str  # "input" | "output" | "workspace"
    dtype: str
    nbytes: int
    pack: tuple[int, int] | None
    low: float
    high: float


@dataclass(frozen=True)
class TrialMemory:
    """Where candidates of a workload are judged; ``tolerance`` is how far two right kernels may
    be apart, as a share of the root mean square of an output."""

    workload: str
    args: tuple[TrialArg, ...]
    tolerance: float


@dataclass(frozen=True)
class Manifest:
    """Everything about a bundle but the contents of its files.

    ``samples`` holds example inputs, row-major and little endian, one file each.
    ``generation`` says how a decoder makes text; ``plan`` is then its decode plan,
    and ``prefill`` and ``extend`` the files of the others, where they exist. ``gpu_kernels`` are
    for WebGPU: one for each workload, or none at all; where ``mixed`` divides the steps between
    WebGPU and Wasm, one for each workload of WebGPU's. ``dims`` are the open dimensions
    of a model for any size; ``inputs`` and ``outputs`` have the sizes of its example then.
    ``demo`` is for the page, and so are ``tokenizer`` and ``labels``, where it has them.
    ``candidates`` are further kernels that a page may try in ``trials``, where it may also try
    those of a compile service whose ``lots`` have these digests, and ``share`` is the only
    address that it may send their times to.
    ``weights`` are the files whose contents, one after another, are those of the plan.
    """

    name: str
    generator: str
    created: str  # ISO 8601, UTC
    plan: BundleFile
    weights: tuple[BundleFile, ...]
    kernels: tuple[BundleKernel, ...]
    engine: tuple[BundleFile, ...]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    tuned_on: Mapping[str, Any]
    samples: tuple[tuple[TensorSpec, BundleFile], ...] = ()
    generation: Generation | None = None
    prefill: BundleFile | None = None
    extend: BundleFile | None = None
    gpu_kernels: tuple[BundleKernel, ...] = ()
    mixed: BundleFile | None = None
    dims: tuple[Dim, ...] = ()
    demo: Demo = NO_DEMO
    tokenizer: BundleFile | None = None
    labels: BundleFile | None = None
    candidates: tuple[BundleKernel, ...] = ()
    trials: tuple[TrialMemory, ...] = ()
    share: str = ""
    lots: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    @property
    def files(self) -> tuple[BundleFile, ...]:
        """Every file that the manifest names, each path once."""
        named = [self.plan, *self.weights, *self.engine, *(file for _, file in self.samples)]
        optional = (self.prefill, self.extend, self.mixed, self.tokenizer, self.labels)
        named += [file for file in optional if file]
        kernels = (*self.kernels, *self.gpu_kernels, *self.candidates)
        named += [file for kernel in kernels for file in kernel.tiers.values()]
        return tuple({entry.file: entry for entry in named}.values())

    @property
    def weights_bytes(self) -> int:
        return sum(shard.nbytes for shard in self.weights)

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION if len(self.weights) == 1 else SHARDS_VERSION,
            "name": self.name,
            "generator": self.generator,
            "created": self.created,
            "plan": asdict(self.plan),
            "weights": self._weights_json(),
            "kernels": [_kernel_json(kernel) for kernel in self.kernels],
            "engine": [asdict(file) for file in self.engine],
            "inputs": [_spec_json(spec) for spec in self.inputs],
            "outputs": [_spec_json(spec) for spec in self.outputs],
            "tuned_on": dict(self.tuned_on),
        }
        if self.demo != NO_DEMO:
            data["demo"] = asdict(self.demo)
        data |= {n: asdict(f) for n in ("mixed", "tokenizer", "labels") if (f := getattr(self, n))}
        if self.dims:
            data["dims"] = [asdict(dim) for dim in self.dims]
        if self.trials:
            data["candidates"] = {
                "kernels": [_kernel_json(kernel) for kernel in self.candidates],
                "trials": [asdict(trial) for trial in self.trials],
                "share": self.share,
                "lots": {workload: dict(lots) for workload, lots in self.lots.items()},
            }
        if self.samples:
            samples = [{**_spec_json(spec), **asdict(file)} for spec, file in self.samples]
            data["samples"] = {"inputs": samples}
        if self.gpu_kernels:
            data["gpu_kernels"] = [
                {"workload": k.workload, "settings": k.settings, "tiers": _tiers_json(k)}
                for k in self.gpu_kernels
            ]
        if self.generation:
            files = {"prefill": self.prefill, "extend": self.extend}
            data["generation"] = {
                "facts": asdict(self.generation),
                **{plan: asdict(file) if file else None for plan, file in files.items()},
            }
        return data

    def sealed(self) -> bytes:
        """The manifest's file, with a sha256 of itself, made with zeros in its place.

        Every other file has its hash here; this one lets an engine notice that a byte of the
        manifest was changed on its way.
        """
        data = {"sha256": _UNSEALED} | self.to_json()
        unsealed = (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()
        digest = hashlib.sha256(unsealed).hexdigest()
        return unsealed.replace(_UNSEALED.encode(), digest.encode(), 1)

    def _weights_json(self) -> dict[str, Any]:
        if len(self.weights) == 1:
            return asdict(self.weights[0])
        return {"nbytes": self.weights_bytes, "shards": [asdict(each) for each in self.weights]}

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
        if data.get("version") not in (VERSION, SHARDS_VERSION):
            raise BundleError(
                f"The bundle has format version {data.get('version')!r}, "
                f"this NNJIT Studio reads {VERSION} to {SHARDS_VERSION}.",
                "Use a matching NNJIT Studio, or export the bundle again.",
            )
        try:
            manifest = msgspec.convert(_fields(data), cls)
            for problem in _problems(manifest):
                raise ValueError(problem)
        except (ValueError, KeyError, TypeError) as e:
            raise BundleError(
                f"The manifest of the bundle is wrong: {e}.", "Export the bundle again."
            ) from e
        return manifest


def is_sealed(text: bytes) -> bool:
    """Whether a manifest's file fits its own sha256; one of an older NNJIT Studio has none."""
    data = json.loads(text)
    digest = str(data.get("sha256", "")) if isinstance(data, dict) else ""
    unsealed = text.replace(digest.encode(), _UNSEALED.encode(), 1)
    return not digest or hashlib.sha256(unsealed).hexdigest() == digest


def safe_path(path: str) -> bool:
    """Whether a path of a zip stays inside the folder it is unpacked to, on any system."""
    if not path or any(c in path for c in '\\:*?"<>|') or not path.isprintable():
        return False
    # PurePosixPath drops "." and doubled slashes: what it changes was not normal.
    parts = PurePosixPath(path).parts
    if any(_RESERVED.fullmatch(part) for part in parts):
        return False
    return str(PurePosixPath(path)) == path and ".." not in parts and parts[0] not in ("/", "//")


_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?|.*[. ]", re.IGNORECASE)
"""Names that Windows takes for devices, or changes."""


def _fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's JSON by the fields of :class:`Manifest`."""
    fields = dict(data)
    sharded = data["version"] == SHARDS_VERSION
    fields["weights"] = data["weights"]["shards"] if sharded else [data["weights"]]
    if sharded and data["weights"]["nbytes"] != sum(s["nbytes"] for s in fields["weights"]):
        raise ValueError("the 'nbytes' of the weights are not the sum of their shards")
    if "samples" in data:
        fields["samples"] = [(item, item) for item in data["samples"]["inputs"]]
    if "generation" in data:
        text = data["generation"]
        fields |= {"generation": text["facts"], "prefill": text["prefill"]}
        fields["extend"] = text.get("extend")  # older bundles have none
    none = {"kernels": [], "trials": [], "share": "", "lots": {}}
    more = none | (data.get("candidates") or {})
    return fields | {"candidates": more["kernels"], **{n: more[n] for n in none if n != "kernels"}}


def _kernel_json(kernel: BundleKernel) -> dict[str, Any]:
    return {
        "workload": kernel.workload,
        "settings": kernel.settings,
        "panels": [list(panel) for panel in kernel.panels],
        "parallel_extent": kernel.parallel_extent,
        "tiers": _tiers_json(kernel),
    }


def _problems(manifest: Manifest) -> Iterator[str]:
    """What the types of the fields do not say."""
    for file in manifest.files:
        if not safe_path(file.file):
            yield f"the path {file.file!r} leaves the bundle"
        if not re.fullmatch("[0-9a-f]{64}", file.sha256):
            yield f"the sha256 of {file.file!r} is not 64 hex digits"
        if file.nbytes < 0:
            yield f"the size of {file.file!r} is below 0"
    if not manifest.weights:
        yield "the weights have no file"
    wasm = (*manifest.kernels, *manifest.candidates)
    for kernels, known in ((wasm, TIERS), (manifest.gpu_kernels, GPU_TIERS)):
        for kernel in kernels:
            if any(argument < 0 or width < 1 for argument, width in kernel.panels):
                yield f"the panels of {kernel.workload} are not [argument, width]"
            if kernel.parallel_extent < 1:
                yield f"the 'parallel_extent' of {kernel.workload} is below 1"
            if not set(kernel.tiers) <= set(known):
                yield f"the tiers of {kernel.workload} are not of {', '.join(known)}"
    for spec in (*manifest.inputs, *manifest.outputs, *(spec for spec, _ in manifest.samples)):
        if spec.dtype not in DTYPE_BYTES:
            yield f"tensor {spec.name!r} has the unknown dtype {spec.dtype!r}"
        if any(n < 0 for n in spec.shape):
            yield f"the shape of tensor {spec.name!r} is not a list of sizes"
    demo = manifest.demo
    for ports, kinds in ((demo.inputs, DEMO_INPUTS), (demo.outputs, DEMO_OUTPUTS)):
        for port in ports:
            if port.kind not in kinds:
                yield f"the page has the unknown kind {port.kind!r} for {port.name!r}"
    digests = (d for lots in manifest.lots.values() for each in lots.values() for d in each)
    if not all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests):
        yield "the digest of a lot is not 64 hex digits"
    text = manifest.generation
    if text is not None and (text.capacity < 1 or text.rows < 0):
        yield "the 'capacity' or the 'rows' of the generation are too small"


def gpu_file_name(sha256: str) -> str:
    """Where a kernel document lies in the bundle."""
    return f"kernels/{sha256}.json"


def _tiers_json(kernel: BundleKernel) -> dict[str, Any]:
    return {tier: asdict(kernel.tiers[tier]) for tier in sorted(kernel.tiers)}


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "dtype": spec.dtype, "shape": list(spec.shape)}
