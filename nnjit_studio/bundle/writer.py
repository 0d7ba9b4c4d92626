"""Writing a bundle: one zip that any static server can hold, unpacked."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio import __version__
from nnjit_studio.bundle.candidates import Candidates, chosen_by_candidate
from nnjit_studio.bundle.demo import NO_PAGE, PageParts
from nnjit_studio.bundle.gpu_kernels import gpu_entries
from nnjit_studio.bundle.manifest import (
    MANIFEST_FILE,
    README_FILE,
    BundleFile,
    BundleKernel,
    Manifest,
    gpu_file_name,
)
from nnjit_studio.bundle.reader import CHUNK_BYTES, verify_bundle
from nnjit_studio.bundle.readme import readme
from nnjit_studio.bundle.seal import write_seal
from nnjit_studio.bundle.shards import SHARD_BYTES, Shard, chunks_of, cut
from nnjit_studio.errors import BundleError
from nnjit_studio.model import NUMPY_DTYPES, Generation, Plan, TensorSpec
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.model.placement import GPU
from nnjit_studio.model.segments import MixedPlan
from nnjit_studio.records import TIERS, Kernel
from nnjit_studio.support.files import replacing, to_disk
from nnjit_studio.support.phases import OnPhase, quiet

PLAN_FILE = "plan.json"
MIXED_FILE = "segments.json"
PREFILL_FILE, EXTEND_FILE = "prefill.json", "extend.json"
TOKENIZER_FILE = "tokenizer.json"
LABELS_FILE = "labels.txt"
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The first date that a zip can hold: equal bundles have equal bytes."""


@dataclass(frozen=True)
class BundleParts:
    """What a bundle is made of."""

    plan: Plan
    """Of a decoder the decode plan."""
    weights: Path
    """The weights file of the plan, ``plan.weights_bytes`` long; it is streamed."""
    kernels: Sequence[Kernel]
    """For each workload of the plan one kernel of each tier, of one candidate. Kernels of other
    workloads are left out. Kernels of GPU tiers are added where every workload has one."""
    engine_files: Mapping[str, bytes]
    """Name in the bundle to contents: :func:`engine_files`."""
    samples: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Example inputs by name, of the shapes and dtypes of the plan."""
    generation: Generation | None = None
    """Of a decoder."""
    prefill: Plan | None = None
    """Of a decoder."""
    extend: Plan | None = None
    """Of a decoder."""
    mixed: MixedPlan | None = None
    """How the plan is divided between WebGPU and Wasm, where kernels for WebGPU are of some steps
    alone."""
    open_plan: OpenPlan | None = None
    """Of a model for any size; ``plan`` is then that at its example's sizes."""
    figures: str = ""
    """What was measured of the model, or said at its export, as lines of the README."""
    page: PageParts = NO_PAGE
    """For the bundle's own page."""
    candidates: Candidates = field(default_factory=Candidates)
    """Further kernels, for tuning in the page."""
    shard_bytes: int = SHARD_BYTES
    """Weights larger than that are cut into several files; 0 for one file."""

    @property
    def plans(self) -> list[Plan]:
        return [plan for plan in (self.plan, self.prefill, self.extend) if plan is not None]


def write_bundle(
    out: Path,
    parts: BundleParts,
    name: str,
    tuned_on: Mapping[str, Any],
    created: str = "",
    on_phase: OnPhase = quiet,
) -> Path:
    """Write a bundle and verify it before it takes the place of an older one.

    Parameters
    ----------
    tuned_on
        Device, target and browser; any JSON.
    created
        ISO 8601, UTC; now by default. Equal arguments give equal bytes.
    on_phase
        Is told what begins, the last time just before the bundle takes its place: what it raises
        ends the writing, and nothing is left of it.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    BundleError
        When something is missing or does not fit, or the file cannot be
        written. A bundle that was at ``out`` is then still there.
    """
    with replacing(out, "The bundle", BundleError) as part:
        on_phase("writing the bundle")
        contents, shards = _files(parts, name, tuned_on, created)
        _write_zip(part, contents, parts.weights, shards)
        on_phase("checking what was written")
        write_seal(part)
        report = verify_bundle(part)
        if not report.ok:
            raise BundleError(
                f"The bundle {out} was not written: {report.problems[0]}",
                "Tune or export the model again.",
            )
        to_disk(part)  # here, so that no more than a rename comes after the last phase
        on_phase("putting the bundle in its place")
    return out


def write_folder(out: Path, parts: BundleParts, name: str) -> Path:
    """The files of a bundle in a new folder, for a page of this machine; its manifest.

    Raises
    ------
    BundleError
        When something is missing or does not fit.
    """
    contents, shards = _files(parts, name, {}, "")
    for file in (*contents, *(shard.entry.file for shard in shards)):
        (out / file).parent.mkdir(parents=True, exist_ok=True)
    for file, data in contents.items():
        (out / file).write_bytes(data)
    for shard in shards:
        with (out / shard.entry.file).open("wb") as target:
            target.writelines(
                chunks_of(parts.weights, shard.begin, shard.entry.nbytes, CHUNK_BYTES)
            )
    return out / MANIFEST_FILE


def _files(
    parts: BundleParts, name: str, tuned_on: Mapping[str, Any], created: str
) -> tuple[dict[str, bytes], Sequence[Shard]]:
    """The files of a bundle by their names, and the parts of its weights, which are streamed."""
    plan = parts.plan
    starts = {b.offset for p in parts.plans for b in p.buffers if b.region == "weight"}
    shards = cut(parts.weights, starts, parts.shard_bytes)
    contents, page = dict(parts.engine_files), parts.page
    engine = tuple(_file(file, contents[file]) for file in sorted(contents))
    manifest = Manifest(
        name=name,
        generator=f"NNJIT Studio {__version__}",
        created=created or datetime.now(timezone.utc).isoformat(timespec="seconds"),
        plan=_add(contents, PLAN_FILE, _json((parts.open_plan or plan).to_json())),
        weights=tuple(shard.entry for shard in shards),
        kernels=_add_kernels(contents, parts),
        engine=engine,
        inputs=plan.input_specs,
        outputs=plan.output_specs,
        tuned_on=tuned_on,
        samples=_add_samples(contents, parts),
        generation=parts.generation,
        prefill=_add_plan(contents, PREFILL_FILE, parts.prefill),
        extend=_add_plan(contents, EXTEND_FILE, parts.extend),
        gpu_kernels=_add_gpu_kernels(contents, parts),
        mixed=_add(contents, MIXED_FILE, _json(parts.mixed.to_json())) if parts.mixed else None,
        dims=parts.open_plan.dims if parts.open_plan else (),
        demo=page.demo,
        tokenizer=_add_given(contents, TOKENIZER_FILE, page.tokenizer),
        labels=_add_given(contents, LABELS_FILE, page.labels),
        candidates=_add_candidates(contents, parts.candidates),
        trials=tuple(parts.candidates.trials),
        lots=parts.candidates.lots,
        share=parts.candidates.share if parts.candidates.trials else "",
    )
    contents[MANIFEST_FILE] = manifest.sealed()
    contents[README_FILE] = readme(manifest, parts.open_plan, parts.figures).encode()
    return contents, shards


def _add_plan(contents: dict[str, bytes], name: str, plan: Plan | None) -> BundleFile | None:
    return None if plan is None else _add(contents, name, _json(plan.to_json()))


def _write_zip(
    file: Path, contents: Mapping[str, bytes], weights: Path, shards: Sequence[Shard]
) -> None:
    streamed = {shard.entry.file: shard for shard in shards}  # equal parts are one file
    with zipfile.ZipFile(file, "w") as archive:
        for name in sorted((*contents, *streamed)):
            info = zipfile.ZipInfo(name, ZIP_EPOCH)
            info.create_system = 3  # the same bytes on every system
            info.external_attr = 0o100644 << 16
            if shard := streamed.get(name):
                # Weights do not compress; stored, a server can send them as they are.
                info.file_size = shard.entry.nbytes
                with archive.open(info, "w") as target:
                    for chunk in chunks_of(weights, shard.begin, shard.entry.nbytes, CHUNK_BYTES):
                        target.write(chunk)
            else:
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, contents[name])


def _add_kernels(contents: dict[str, bytes], parts: BundleParts) -> tuple[BundleKernel, ...]:
    entries = []
    for workload in sorted(_called(parts.plans) | _variants(parts.open_plan)):
        tiers = {k.tier: k for k in parts.kernels if k.workload == workload and k.tier in TIERS}
        if TIERS[0] not in tiers:
            raise BundleError(
                f"The workload {workload} has no kernel of the tier {TIERS[0]}.",
                "Tune the model again, then export.",
            )
        forms = {(k.settings, k.panels, k.parallel_extent) for k in tiers.values()}
        if len(forms) > 1:
            raise BundleError(
                f"The tiers of {workload} come from different candidates.",
                "Compile both tiers of one candidate, then export.",
            )
        entries.append(BundleKernel(workload, *forms.pop(), _modules(contents, tiers.values())))
    return tuple(entries)


def _add_candidates(contents: dict[str, bytes], found: Candidates) -> tuple[BundleKernel, ...]:
    return tuple(
        BundleKernel(k.workload, k.settings, k.panels, k.parallel_extent, _modules(contents, tiers))
        for tiers in chosen_by_candidate(found.kernels)
        for k in tiers[:1]
    )


def _modules(contents: dict[str, bytes], tiers: Iterable[Kernel]) -> dict[str, BundleFile]:
    return {k.tier: _add(contents, f"kernels/{k.sha256}.wasm", k.data) for k in tiers}


def _called(plans: Sequence[Plan]) -> set[str]:
    return {step.workload for plan in plans for step in plan.steps if step.op == "call"}


def _variants(plan: OpenPlan | None) -> set[str]:
    kernels = plan.kernels.values() if plan else ()
    return {variant.workload for kernel in kernels for variant in kernel.variants}


def _add_gpu_kernels(contents: dict[str, bytes], parts: BundleParts) -> tuple[BundleKernel, ...]:
    open_plan = parts.open_plan
    plans = [replace(parts.plan, steps=open_plan.on_gpu)] if open_plan else parts.plans
    called = _called([p.on_gpu for p in plans])
    if parts.mixed:
        called = set(parts.mixed.workloads(GPU))
    return tuple(
        BundleKernel(
            workload,
            tiers[0].settings,
            tiers={k.tier: _add(contents, gpu_file_name(k.sha256), k.data) for k in tiers},
        )
        for workload, tiers in sorted(gpu_entries(parts.kernels, called).items())
    )


def _add_samples(
    contents: dict[str, bytes], parts: BundleParts
) -> tuple[tuple[TensorSpec, BundleFile], ...]:
    specs = {spec.name: spec for spec in parts.plan.input_specs}
    entries = []
    for i, (name, array) in enumerate(parts.samples.items()):
        spec = specs.get(name)
        if spec is None or array.shape != spec.shape:
            raise BundleError(
                f"The sample {name!r} of shape {array.shape} fits no input of the model.",
                "Give arrays by input name: "
                + ", ".join(f"{s.name} {s.shape}" for s in specs.values())
                + ".",
            )
        dtype = NUMPY_DTYPES[spec.dtype]
        if array.dtype != dtype:
            raise BundleError(
                f"The sample {name!r} is {array.dtype}, its input is {spec.dtype}.",
                "Convert the array first.",
            )
        data = np.ascontiguousarray(array, dtype).tobytes()
        entries.append((spec, _add(contents, f"samples/{i}.bin", data)))
    return tuple(entries)


def _add(contents: dict[str, bytes], name: str, data: bytes) -> BundleFile:
    contents[name] = data
    return _file(name, data)


def _add_given(contents: dict[str, bytes], name: str, data: bytes) -> BundleFile | None:
    return _add(contents, name, data) if data else None


def _file(name: str, data: bytes) -> BundleFile:
    return BundleFile(name, hashlib.sha256(data).hexdigest(), len(data))


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, allow_nan=False) + "\n").encode()
