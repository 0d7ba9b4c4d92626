"""Verbs that use what tuning found: ``run``, ``export``, and ``verify`` of what that wrote."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np

from nnjit_studio.analysis.diff import TOLERANCE
from nnjit_studio.bundle import (
    SHARD_BYTES,
    VerifyReport,
    allowed_address,
    public_key,
    signing_key,
    verify_bundle,
    write_seal,
)
from nnjit_studio.bundle.demo import read_overrides
from nnjit_studio.bundle.proof import prove
from nnjit_studio.bundle.sizes import check_budget
from nnjit_studio.cli.common import (
    ARRAYS,
    INPUTS,
    JSON,
    MODEL,
    answer,
    database_path,
    note,
)
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import FOLDER, OUTPUT, PATH, argument, option, verb
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import BundleError, ModelError, NnjitError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records import DeviceProfile, Inference
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.files import replacing
from nnjit_studio.workbench import Workbench, jobs
from nnjit_studio.workbench.open_model import size_name


@verb("run")
def run_model(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    inputs: tuple[Feeds, ...] = option(
        None,
        "Input arrays by name, an .npz file. Given several times, the model runs at the sizes of "
        "each, from one import.",
        multiple=True,
        type=ARRAYS,
    ),
    outputs: tuple[Path, ...] = option(
        None,
        "Write the outputs to this .npz file; one for each --inputs. May be left out with --check.",
        multiple=True,
        type=OUTPUT,
    ),
    check: bool = option(False, "Compare the outputs with native ONNX Runtime's."),
    target: TargetOptions = target_options(),
    as_json: bool = JSON,
) -> None:
    """Run one inference in the target with the best known kernels.

    With --check, an output whose largest error is above 0.001 of its largest value is an error.
    """
    if not outputs and not check:
        raise UserError("Nothing would be kept of the run.", "Give --outputs FILE.npz, or --check.")
    if outputs and len(outputs) != max(1, len(inputs)):
        raise UserError(
            f"There are {len(inputs)} --inputs, but {len(outputs)} --outputs.",
            "Give as many files for outputs as for inputs.",
        )
    notes: tuple[str, ...] = ()
    with workbench(target, importing, opens=KernelDatabase.open_for_reading) as opened:
        bench = opened.bench

        def work() -> tuple[list[Inference], list[dict[str, float]], DeviceProfile]:
            nonlocal notes
            if len(inputs) < 2:
                bench.open_model(model, note, inputs[0] if inputs else None)
                bench.model.register_best()
                given: tuple[Feeds, ...] = (bench.model.feeds,)
                runs = [bench.model.infer()]
            else:
                _, notes = bench.open_sizes(model, inputs, note)
                bench.model.register_best()
                given = inputs
                runs = [bench.model.infer_on(size_name(i), each) for i, each in enumerate(inputs)]
            pairs = zip(given, runs, strict=True) if check else ()
            errors = [jobs.output_errors(bench.model, g, r.outputs) for g, r in pairs]
            return runs, errors, bench.page.connect()

        results, errors, device = opened.run(work)
        fallback = bench.page.fallback_reason
    for sentence in (*notes, *([f"{fallback} This ran in Wasm."] if fallback else [])):
        if not as_json:
            note(sentence)
    runs = [_told_of(result) for result in results]
    for file, run, result in zip(outputs, runs, results, strict=False):
        run["file"] = _write(file, result)
    facts = {
        "target": device.label,
        "adapter": device.gpu.name if device.gpu else None,
        "fallback_reason": fallback,
    }
    for run, found in zip(runs, errors, strict=False):
        run["errors"] = {name: e if math.isfinite(e) else "inf" for name, e in found.items()}
    first = runs[0] if len(runs) == 1 else {"runs": runs, "notes": list(notes)}
    done = [f"wrote {file}" for file in outputs] or ["ran"] * len(runs)
    texts = (
        f"{what}: {', '.join(r['outputs'])} ({r['ms']:.2f} ms)"
        for what, r in zip(done, runs, strict=True)
    )
    wrong = unlike(errors)
    refused = wrong.to_json() if wrong else {}
    document = {"ok": True, **first, **facts, **refused}
    answer(as_json, document, "\n".join((*texts, *map(_told, errors))))
    if wrong:
        if not as_json:
            note(str(wrong))
        sys.exit(1)


def unlike(errors: Sequence[Mapping[str, float]]) -> NnjitError | None:
    """What is wrong with outputs, one mapping for each run; None if all are native ONNX Runtime's
    to the tolerance."""
    bad = [name for found in errors for name, error in found.items() if not error <= TOLERANCE]
    if not bad:
        return None
    return NnjitError(
        f"Not native ONNX Runtime's to {TOLERANCE}: {', '.join(dict.fromkeys(bad))}.",
        "`nnjit diff MODEL --inputs FILE` tells which step is to blame.",
    )


def _told(errors: Mapping[str, float]) -> str:
    found = ", ".join(f"{name} {error:.1e}" for name, error in errors.items())
    return f"largest error, as a share of the largest value: {found}"


def _write(file: Path, result: Inference) -> str:
    """The file's name."""
    file.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = result.outputs
    # A name alone would get a suffix of its own, so the file is opened here.
    with replacing(file) as part, part.open("wb") as opened:
        np.savez(opened, **arrays)
    return str(file)


def _told_of(result: Inference) -> dict[str, Any]:
    shapes = {name: list(array.shape) for name, array in result.outputs.items()}
    return {"outputs": shapes, "ms": result.runs_ms[-1]}


@verb()
def export(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    output: Path = option(None, flag="-o --output", required=True, type=OUTPUT),
    webgpu: bool | None = option(
        None,
        "Include kernels for WebGPU; by default if the database has a winner on a GPU.",
        flag="--webgpu/--no-webgpu",
    ),
    shard_mb: float = option(
        SHARD_BYTES / 2**20, "Cut larger weights into files of this size, in MiB; 0 for one file."
    ),
    candidates: int = option(
        0,
        "Further kernels of each workload for tuning in the page, which is off by default.",
        type=click.IntRange(0, 64),
    ),
    programs: Path | None = option(
        None,
        "Folder for what a server with --compile must know to serve the page kernels to try.",
        type=FOLDER,
    ),
    share: str = option(
        "", "The only address that the page may send times of candidates to; none by default."
    ),
    inputs: Feeds | None = INPUTS,
    demo: tuple[str, ...] = option(
        None,
        "NAME=KIND: what the bundle's page takes an input or output for: picture, sound, text, "
        "array; labels, boxes, similarity, waveform, numbers.",
        multiple=True,
    ),
    budget_mb: float = option(
        0.0, "Fail, and write nothing, where the bundle is larger: MB of 1,000,000 bytes."
    ),
    sign: Path | None = option(
        None, "Sign with the Ed25519 key of this PEM file; a missing file is made.", type=PATH
    ),
    target: TargetOptions = target_options("threads", "database"),
    as_json: bool = JSON,
) -> None:
    """Write MODEL with its best known kernels as a bundle for any static server.

    Where MODEL leaves sizes open and neither --dim nor --shape fixes one, the bundle takes
    any size; with --candidates it takes one. Arrays of --inputs are stored in the bundle as
    sample inputs.
    """
    tuning = _tuning(candidates, programs, share)
    signer = None if sign is None else signing_key(sign)
    kinds = read_overrides(demo)
    shard_bytes = round(shard_mb * 2**20)
    bench = Workbench(
        database_path(target.database),
        threads=target.threads,
        opens=KernelDatabase.open_for_reading,
        importing=importing,
    )
    tuned = 0
    try:
        with _within(budget_mb, output) as out:
            path = None
            if tuning is None:
                path = _any_size(bench, model, out, inputs, kinds, shard_bytes, bool(webgpu))
            if path is None:
                bench.open_offline(model, note, inputs)
                jobs.export(bench.model, out, True, webgpu, tuning, kinds, shard_bytes)
                if programs:
                    jobs.write_programs(bench.model, programs)
                tuned = sum(c is not None for c in bench.model.choose_known().values())
    finally:
        bench.close()
    if signer is not None:
        write_seal(output, signer)
    report = whole(verify_bundle(output))
    key = report.seal.key if report.seal else ""
    document = {"ok": True, "path": str(output), "tuned": tuned, "files": report.files, "key": key}
    signed = f", signed with {key}" if key else ""
    answer(
        as_json, document, f"wrote {output}: {report.files} files, {tuned} tuned workloads{signed}"
    )


def _tuning(candidates: int, programs: Path | None, share: str) -> jobs.Tuning | None:
    """What the page may try; None for a bundle that is not tuned there."""
    tuned = candidates > 0 or programs is not None
    if share and not (tuned and allowed_address(share)):
        raise UserError(
            f"Times of candidates cannot be sent to {share!r}.",
            "Give --candidates or --programs, and an address of https without a query.",
        )
    return jobs.Tuning(candidates, share, programs is not None) if tuned else None


@contextmanager
def _within(budget_mb: float, output: Path) -> Iterator[Path]:
    """Where to write the bundle, which takes its place only if the budget holds; 0 for none."""
    output.parent.mkdir(parents=True, exist_ok=True)
    if not budget_mb:
        yield output
        return
    with replacing(output, "The bundle", BundleError) as part:
        yield part
        check_budget(part, budget_mb)


def _any_size(
    bench: Workbench,
    model: Path,
    output: Path,
    feeds: Feeds | None,
    kinds: Mapping[str, str],
    shard_bytes: int,
    webgpu: bool,
) -> Path | None:
    """The bundle for any size; None where sizes are fixed, by the file or by the options."""
    given = bench.page.importing.shapes
    if given.dims or given.shapes:
        return None
    try:
        made = jobs.export_any_size(
            bench.page, model, output, feeds, note, kinds, shard_bytes, webgpu
        )
    except ModelError as error:
        if feeds is None:
            raise
        note(f"{error.error} The bundle takes the sizes of --inputs alone.")
        return None
    for text in made[1] if made else ():
        note(text)
    return made[0] if made else None


@verb()
def verify(
    bundle: Path = argument(type=PATH),
    key: str = option("", "Demand this signer: 64 hexadecimal digits, or a file with them."),
    as_json: bool = JSON,
) -> None:
    """Check every byte of a bundle, and say what that proves and what it does not."""
    wanted = public_key(key) if key else ""
    report = whole(verify_bundle(bundle))
    proof = prove(report, wanted)
    document = {"ok": True, "path": str(bundle), "files": report.files, **proof.to_json()}
    lines = [f"{bundle}: {report.files} files, {report.kernels} kernels, no byte changed"]
    lines += [f"proved: {text}" for text in proof.proved]
    lines += [f"not proved: {text}" for text in proof.open]
    answer(as_json, document, "\n".join(lines))


def whole(report: VerifyReport) -> VerifyReport:
    """The report of a bundle without problems, else the problems as an error."""
    if not report.ok:
        raise BundleError(
            f"The bundle {str(report.path)!r} is damaged: {'; '.join(report.problems[:3])}",
            "Export it again.",
        )
    return report
