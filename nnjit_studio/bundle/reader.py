"""Reading and verifying a bundle that may come from anybody."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.bundle.candidates import candidate_problems
from nnjit_studio.bundle.check import (
    GPU_BYTES,
    MEMORY_BYTES,
    generation_problems,
    open_problems,
    plan_problems,
)
from nnjit_studio.bundle.engine import engine_files
from nnjit_studio.bundle.gpu_kernels import kernel_problems
from nnjit_studio.bundle.manifest import MANIFEST_FILE, README_FILE, BundleFile, Manifest, safe_path
from nnjit_studio.bundle.mixed import mixed_problems
from nnjit_studio.bundle.seal import Seal, read_seal
from nnjit_studio.errors import BundleError, UserError, WasmError
from nnjit_studio.model import Plan
from nnjit_studio.model.open_plan import OPEN_VERSION, OpenPlan
from nnjit_studio.model.placement import GPU
from nnjit_studio.model.plan import PLAN_VERSIONS
from nnjit_studio.model.segments import MixedPlan
from nnjit_studio.records import GPU_TIERS, TIERS, Kernel
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate, candidate_of
from nnjit_studio.wasm_file.kernel import kernel_pointers

CHUNK_BYTES = 1 << 20
LIMIT_BYTES = {"manifest": 16 << 20, "readme": 1 << 20, "plan": 64 << 20, "kernel": 1 << 20}
"""What is read into memory at most; weights, samples and engine files are streamed."""

MAX_ENTRIES = 10_000
MAX_UNPACKED_BYTES = 64 << 20
"""Of an entry that is compressed; weights, which may be larger, are stored."""

REQUIRED_FILES = ("index.html", "nnjit.js")


@dataclass(frozen=True)
class Bundle:
    """A bundle in memory, all but its weights."""

    path: Path
    manifest: Manifest
    plan: Plan
    """Of a model for any size that at its example's sizes."""
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True)
class VerifyReport:
    """What :func:`verify_bundle` found; no problems means that the bundle is whole.

    ``nbytes`` is the size of the zip; ``kernels`` counts modules and GPU kernels. ``seal`` is what
    was found of it, None where there are problems. ``foreign`` are the files in which the bundle's
    engine differs from that of this program, which is no problem of the bundle as such.
    """

    path: Path
    problems: tuple[str, ...]
    name: str = ""
    files: int = 0
    kernels: int = 0
    nbytes: int = 0
    seal: Seal | None = None
    foreign: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "bundle": str(self.path),
            "name": self.name,
            "files": self.files,
            "kernels": self.kernels,
            "nbytes": self.nbytes,
            "problems": list(self.problems),
            "foreign": list(self.foreign),
        }


def read_bundle(path: Path) -> Bundle:
    """Manifest, plan and kernels of a bundle, after verifying all of it.

    Raises
    ------
    BundleError
        When the bundle is missing or not whole; it names the first problem.
    """
    report = verify_bundle(path)
    if not report.ok:
        raise BundleError(
            f"The bundle {path} is not whole: {report.problems[0]}", "Export it again."
        )
    with _open(path) as archive:
        manifest = _read_manifest(archive)
        plan, _ = _read_any(archive, manifest.plan)
        kernels = [
            Kernel(
                kernel.workload,
                candidate_of(kernel.settings),
                tier,
                _read(archive, file.file, LIMIT_BYTES["kernel"]),
                file.sha256,
                kernel.panels,
                kernel.parallel_extent,
            )
            for kernel in (*manifest.kernels, *manifest.gpu_kernels)
            for tier in (*TIERS, *GPU_TIERS)
            if (file := kernel.tiers.get(tier))
        ]
    return Bundle(path, manifest, plan, tuple(kernels))


def verify_bundle(path: Path) -> VerifyReport:
    """Check a bundle without unpacking it.

    Names and sizes first, then every sha256, then what the files mean: the
    plan, and each kernel's imports and exports; the seal of all bytes last.
    Nothing is read beyond the size that the manifest declares.

    Raises
    ------
    BundleError
        When there is no such file. Everything else is a problem in the report.
    """
    path = Path(path)
    if not path.is_file():
        raise BundleError(f"There is no bundle at {path}.", "Check the name.")
    nbytes = path.stat().st_size
    try:
        with _open(path) as archive:
            infos = archive.infolist()
            problems = list(_entry_problems(infos))
            if problems:
                return VerifyReport(path, tuple(problems), files=len(infos), nbytes=nbytes)
            manifest = _read_manifest(archive)
            problems = list(_file_problems(archive, manifest))
            # What a file means is asked only of files that are what they should be.
            if not problems:
                problems = list(_content_problems(archive, manifest))
            seal = None if problems else read_seal(path)
    except UserError as e:
        return VerifyReport(path, (e.error,), nbytes=nbytes)
    kernels = (*manifest.kernels, *manifest.gpu_kernels, *manifest.candidates)
    modules = {file.file for kernel in kernels for file in kernel.tiers.values()}
    return VerifyReport(
        path, tuple(problems), manifest.name, len(infos), len(modules), nbytes, seal,
        _foreign(manifest),
    )  # fmt: skip


def _foreign(manifest: Manifest) -> tuple[str, ...]:
    """Engine files that are not this program's, that it would not ship, or that are missing."""
    ours = engine_files(
        manifest.generation is not None,
        bool(manifest.gpu_kernels),
        bool(manifest.dims),
        bool(manifest.trials),
        manifest.tokenizer is not None,
        manifest.mixed is not None,
    )
    expected = {name: hashlib.sha256(data).hexdigest() for name, data in ours.items()}
    found = {file.file: file.sha256 for file in manifest.engine}
    return tuple(
        sorted(n for n in expected.keys() | found.keys() if expected.get(n) != found.get(n))
    )


def _entry_problems(infos: list[zipfile.ZipInfo]) -> Iterator[str]:
    seen: set[str] = set()
    if len(infos) > MAX_ENTRIES:
        yield f"There are more than {MAX_ENTRIES} files."
        return
    for info in infos:
        # orig_filename: zipfile cleans what filename gives.
        name = info.orig_filename
        mode = info.external_attr >> 16
        if not safe_path(name):
            yield f"The path {name!r} leaves the bundle, or is a name that Windows reserves."
        elif name.lower() in seen:
            yield f"The file {name!r} is there twice."
        elif stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            yield f"The entry {name!r} is not a plain file."
        elif info.flag_bits & 1 or info.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            yield f"The file {name!r} is encrypted or compressed in an unusual way."
        elif info.compress_type == zipfile.ZIP_DEFLATED and info.file_size > MAX_UNPACKED_BYTES:
            yield f"The file {name!r} unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB."
        seen.add(name.lower())


def _file_problems(archive: zipfile.ZipFile, manifest: Manifest) -> Iterator[str]:
    sizes = {info.filename: info.file_size for info in archive.infolist()}
    declared = {file.file for file in manifest.files}
    for name in sorted(sizes.keys() - declared - {MANIFEST_FILE, README_FILE}):
        yield f"The file {name!r} is not in the manifest."
    if sizes.get(README_FILE, 0) > LIMIT_BYTES["readme"]:
        yield f"The file {README_FILE!r} is too large."
    for name in REQUIRED_FILES:
        if name not in {file.file for file in manifest.engine}:
            yield f"The engine's file {name!r} is missing."
    for file in manifest.files:
        if file.file not in sizes:
            yield f"The file {file.file!r} is missing."
        elif sizes[file.file] != file.nbytes:
            yield f"The file {file.file!r} has {sizes[file.file]} bytes instead of {file.nbytes}."
        elif _digest(archive, file) != file.sha256:
            yield f"The file {file.file!r} was changed: its sha256 differs."


def _content_problems(archive: zipfile.ZipFile, manifest: Manifest) -> Iterator[str]:
    pointers: dict[str, int] = {}
    for kernel in (*manifest.kernels, *manifest.candidates):
        if kernel.settings != DEFAULT_SETTINGS:
            Candidate.parse(kernel.settings)
        for tier, file in kernel.tiers.items():
            if file.file != f"kernels/{file.sha256}.wasm":
                yield f"The kernel {file.file!r} is not named by its sha256."
            try:
                count = kernel_pointers(_read(archive, file.file, LIMIT_BYTES["kernel"]))
            except WasmError as e:
                yield f"The {tier} kernel of {kernel.workload} is refused. {e.error}"
                continue
            if pointers.setdefault(kernel.workload, count) != count:
                yield f"The tiers of {kernel.workload} take different arguments."
    kernels = {kernel.workload: kernel for kernel in manifest.kernels}
    if len(kernels) < len(manifest.kernels):
        yield "A workload has two kernels."
    layouts: dict[int, int] = {}
    most = GPU_BYTES if manifest.gpu_kernels else MEMORY_BYTES
    plan, open_plan = _read_any(archive, manifest.plan)
    if open_plan is None:
        yield from plan_problems(plan, kernels, pointers, layouts, most)
    else:
        yield from open_problems(open_plan, kernels, pointers)
    if manifest.dims != (open_plan.dims if open_plan else ()):
        yield "The open dimensions of the manifest are not those of the plan."
    prefill, extend = (
        _read_plan(archive, file) if file else None for file in (manifest.prefill, manifest.extend)
    )
    others = [p for p in (prefill, extend) if p is not None]
    for other in others:
        yield from plan_problems(other, kernels, pointers, layouts, most)
    if manifest.trials or manifest.candidates:
        ours = {w: pointers[w] for w in kernels if w in pointers}
        yield from candidate_problems(
            manifest.candidates, manifest.trials, manifest.share, ours, [plan, *others]
        )
        if manifest.dims:
            yield "Candidates of a model for any size cannot be tried."
    if manifest.generation is not None:
        yield from generation_problems(manifest.generation, plan, prefill, extend)
    if manifest.gpu_kernels:
        for kernel in manifest.gpu_kernels:
            if kernel.settings != DEFAULT_SETTINGS:
                GpuCandidate.parse(kernel.settings)
        files = {file.file for kernel in manifest.gpu_kernels for file in kernel.tiers.values()}
        documents = {name: _read(archive, name, LIMIT_BYTES["kernel"]) for name in files}
        plans = [p.on_gpu for p in (plan, *others)]
        if open_plan is not None:
            plans = [replace(plan, steps=open_plan.on_gpu)]
        if manifest.mixed is not None:
            mixed = _read_mixed(archive, manifest.mixed)
            yield from mixed_problems(mixed, plan, kernels, pointers)
            plans = [segment.plan for segment in mixed.segments if segment.device == GPU]
        yield from kernel_problems(manifest.gpu_kernels, documents, plans, open_plan)
    if plan.weights_bytes != manifest.weights_bytes:
        yield "The weights and the plan differ in size."
    for shard in manifest.weights if len(manifest.weights) > 1 else ():
        if shard.file != f"weights/{shard.sha256}.bin":
            yield f"The weights {shard.file!r} are not named by their sha256."
    if (plan.input_specs, plan.output_specs) != (manifest.inputs, manifest.outputs):
        yield "The inputs and outputs of the manifest are not those of the plan."
    for spec, file in manifest.samples:
        if spec not in manifest.inputs or file.nbytes != spec.nbytes:
            yield f"The sample {file.file!r} fits no input."


def _read_manifest(archive: zipfile.ZipFile) -> Manifest:
    return Manifest.from_json(_read_json(archive, MANIFEST_FILE, LIMIT_BYTES["manifest"]))


def _read_any(archive: zipfile.ZipFile, file: BundleFile) -> tuple[Plan, OpenPlan | None]:
    """The plan, of a model for any size at its example's sizes, and that for any size."""
    data = _read_json(archive, file.file, LIMIT_BYTES["plan"])
    if not isinstance(data, dict) or data.get("version") != OPEN_VERSION:
        return _read_plan(archive, file), None
    try:
        found = OpenPlan.from_json(data)
        return found.at(found.example), found
    except (UserError, ValueError, KeyError, TypeError, ArithmeticError, IndexError) as e:
        raise BundleError(
            f"The plan of the bundle cannot be read: {e}.", "Export the bundle again."
        ) from e


def _read_plan(archive: zipfile.ZipFile, file: BundleFile) -> Plan:
    data = _read_json(archive, file.file, LIMIT_BYTES["plan"])
    try:
        if data["version"] not in PLAN_VERSIONS:
            raise ValueError(f"its version is {data['version']!r}")
        return Plan.from_json(data)
    except (ValueError, KeyError, TypeError) as e:
        raise BundleError(
            f"The plan of the bundle cannot be read: {e}.", "Export the bundle again."
        ) from e


def _read_mixed(archive: zipfile.ZipFile, file: BundleFile) -> MixedPlan:
    try:
        return MixedPlan.from_json(_read_json(archive, file.file, LIMIT_BYTES["plan"]))
    except (ValueError, KeyError, TypeError) as e:
        raise BundleError(
            f"The segments of the bundle cannot be read: {e}.", "Export the bundle again."
        ) from e


def _read_json(archive: zipfile.ZipFile, name: str, limit: int) -> Any:
    try:
        return json.loads(_read(archive, name, limit).decode("utf-8"))
    except (ValueError, RecursionError) as e:
        raise BundleError(
            f"The file {name!r} of the bundle is not JSON.", "Export the bundle again."
        ) from e


def _read(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    with _member(archive, name) as file:
        data: bytes = file.read(limit + 1)
    if len(data) > limit:
        raise BundleError(
            f"The file {name!r} of the bundle is larger than {limit} bytes.",
            "Export the bundle again.",
        )
    return data


def _digest(archive: zipfile.ZipFile, file: BundleFile) -> str:
    digest = hashlib.sha256()
    with _member(archive, file.file) as source:
        # zipfile stops at the declared size, which was compared with the manifest's.
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _open(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError) as e:
        raise BundleError(
            f"The file {path.name} is not a whole zip file.", "Export the bundle again."
        ) from e
    except OSError as e:
        raise BundleError(
            f"The bundle {path} cannot be read: {e.strerror or e}.", "Check its permissions."
        ) from e


@contextmanager
def _member(archive: zipfile.ZipFile, name: str) -> Iterator[Any]:

    try:
        with archive.open(name) as file:
            yield file
    except KeyError as e:
        raise BundleError(f"The bundle has no file {name!r}.", "Export the bundle again.") from e
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as e:
        raise BundleError(
            f"The file {name!r} of the bundle is damaged: {e}.", "Export the bundle again."
        ) from e
