"""``nnjit bench``: kernels and models compared with their peers, compile times, passes."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from nnjit_studio.bench.conditions import load_average
from nnjit_studio.bench.peers import kernels as kernel_job
from nnjit_studio.bench.peers import models as model_job
from nnjit_studio.bench.peers import tables
from nnjit_studio.bench.peers.compile_times import bench_compile
from nnjit_studio.bench.peers.passes import bench_passes
from nnjit_studio.bundle import read_bundle
from nnjit_studio.cli.bench.gpu import kernels_on_gpu, load_native
from nnjit_studio.cli.bench.options import (
    ADAPTER,
    Output,
    PeerOptions,
    cold,
    peer_options,
    publish,
    scratch,
)
from nnjit_studio.cli.common import note
from nnjit_studio.cli.import_options import IMPORTING_FIXED
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import COUNT, FILE, argument, group, option, verb
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.backend import BACKENDS
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.target_options import TargetOptions


@dataclass(frozen=True)
class KernelsOptions:
    """The shapes that are compared, and how our kernels of them are found."""

    backend: str = option("wasm", type=click.Choice(BACKENDS))
    shapes: str | None = option(None, "Names such as K0, or workloads; see `nnjit compile --help`.")
    threads: int = option(1, type=click.IntRange(1, 64))
    seconds: float = option(
        15.0,
        "For wasm: seconds of tuning per shape, at most.",
        flag="--tune",
        type=click.FloatRange(0.5),
    )
    candidates: int | None = option(
        None, "For webgpu: try only the first so many candidates of each space.", type=COUNT
    )
    native: Path | None = option(
        None, "For webgpu: a file by benchmarks/cublas.py, shown as a column of its own.", type=FILE
    )


@verb()
def kernels(
    options: KernelsOptions = group(KernelsOptions),
    gpu: str = ADAPTER,
    given: PeerOptions = peer_options("ort,tfjs,litert", "ort, tfjs, litert"),
) -> None:
    """Compare the lite spaces' best kernels with the peers, in one browser page.

    All are called as a page would call them: our session's and ONNX Runtime's
    `await session.run(feeds)`, TensorFlow.js's `tf.matMul` with `dataSync`, LiteRT.js's
    `await model.run(tensors)` (Wasm only; its .tflite files are written here). All get their
    inputs anew in each call: tensors of the last two are made in it.
    On webgpu: GPU time by timestamps around each compute pass, one product per submit and
    many per pass, and the page's time of the same calls.
    """
    if options.backend == "webgpu":
        native = load_native(options.native)
        kernels_on_gpu(options.shapes, options.candidates, native, gpu, given)
        return
    wanted = kernel_job.parse_shapes(options.shapes)
    peers = kernel_job.parse_peers(given.peers)
    (page, versions), threads = given.page(), options.threads
    with scratch() as folder:
        with cold(folder, replace(given.target, threads=threads)) as opened:

            def tune() -> tuple[list[kernel_job.Prepared], dict[str, float]]:
                prepared = kernel_job.prepare(
                    opened.bench, wanted, options.seconds, folder, peers, note
                )
                return prepared, kernel_job.peak_gflops(opened.bench)

            prepared, peak = opened.run(tune)
        result = kernel_job.compare(prepared, threads, peak, page(folder), note)
    result["versions"] |= versions
    publish(result, tables.kernels_report, given.output)


@verb()
def models(
    files: tuple[Path, ...] = argument(
        nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
    ),
    threads: str = option("1,2", "Comma list of thread counts."),
    seconds: float = option(
        20.0,
        "Seconds of tuning, for each model and thread count; 0 for none.",
        flag="--tune",
        type=click.FloatRange(0),
    ),
    cold_rounds: int = option(3, "Cold starts of each contender.", flag="--cold"),
    rounds: int = option(
        model_job.POLICY.rounds, "Samples of each; from 11 on a ratio has an interval.", type=COUNT
    ),
    backend: str = option("wasm", type=click.Choice(BACKENDS)),
    gpu: str = ADAPTER,
    baseline: Path | None = option(
        None,
        "A bundle with the same inputs, such as the model's in float32, in turns too.",
        type=FILE,
    ),
    importing: ImportOptions = IMPORTING_FIXED,
    given: PeerOptions = peer_options("ort", "ort; litert on wasm, jsep on webgpu"),
) -> None:
    """Compare whole tuned models with ONNX Runtime Web: speed, memory, cold start.

    FILES are .onnx models; `nnjit sample` writes some. Both run in turns in one page, called
    as a page would call them; each cold start is a page of its own in a fresh browser. Errors are
    those of both against native ONNX Runtime. On webgpu, on one thread: `ort` is ONNX Runtime Web's
    provider in C++, `jsep` the one in TypeScript; memory is that of Wasm alone. `litert` runs
    the .tflite file of the same name that lies next to each model.
    """
    on_gpu = backend == "webgpu"
    packages = {
        p: kernel_job.PEERS[p if p in kernel_job.PEERS else "ort"] for p in model_job.PEERS[backend]
    }
    parse = partial(model_job.parse_peers, backend)
    if baseline is not None:
        read_bundle(baseline)
    page, versions = given.page(parse, packages, gpu if on_gpu else "")
    here = replace(given.target, backend=backend, gpu="software" if gpu == "software" else "auto")
    load_before = load_average()
    rows = []
    for count in (1,) if on_gpu else thread_counts(threads):
        for file in files:
            with scratch() as folder:
                with cold(folder, replace(here, threads=count), importing) as opened:
                    prepare = partial(model_job.prepare, opened.bench, file, seconds, folder)
                    model = opened.run(prepare)
                native = model_job.native_outputs(model)
                policy = replace(model_job.POLICY, rounds=rounds)
                row = model_job.compare(
                    model, count, page(folder), cold_rounds, policy, native, backend, baseline
                )
            note(model_job.row_text(row))
            rows.append(row)
    result = model_job.document(rows, versions, load_before)
    publish(result, tables.models_report, given.output)


def thread_counts(text: str) -> list[int]:
    """A comma list of numbers of threads."""
    words = text.split(",")
    if not all(w.isdigit() and 1 <= int(w) <= 64 for w in words):
        raise UserError(f"--threads {text!r} is no list of counts.", "Give it such as 1,2.")
    return [int(w) for w in words]


@verb("compile")
def compile_times(
    shapes: str = option("K0,K1,K2,K3", "Names or workloads."),
    ours_only: bool = option(False, "Leave TVM + LLVM + wasm-ld and emcc out."),
    output: Output = group(Output),
) -> None:
    """Compare compile times of all candidates with TVM + LLVM + wasm-ld and + emcc."""
    wanted = kernel_job.parse_shapes(shapes)
    with closing(CompileProcess()) as process:
        result = bench_compile(Compiler(process), wanted, note, not ours_only)
    publish(result, tables.compile_report, output)


@verb()
def passes(
    workload: str = argument(default="K0"),
    settings: str = option("x0=8,y0=6,r0=4,x1=8,y1=6,r1=768", flag="--candidate"),
    target: TargetOptions = target_options("target", "no_sandbox"),
    output: Output = group(Output),
) -> None:
    """Time compilation and kernels with passes switched off, after Table 5 of the paper."""
    ((_, spec),) = kernel_job.parse_shapes(workload)
    candidate = Candidate.parse(settings)
    with scratch() as folder, cold(folder, target) as opened:
        result = opened.run(lambda: bench_passes(opened.bench, spec, candidate, note))
    publish(result, tables.passes_report, output)
