"""``nnjit bench``, the verbs on WebGPU: kernels, dispatches, 4-bit products."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import click

from nnjit_studio.bench.gpu import dispatches as dispatch_job
from nnjit_studio.bench.gpu import gemv4 as gemv4_job
from nnjit_studio.bench.gpu import kernels as kernel_job
from nnjit_studio.bench.gpu.gemv4_chain import parse_sizes
from nnjit_studio.bench.gpu.page import GPU_PEERS
from nnjit_studio.bench.gpu.tables import kernels_report
from nnjit_studio.bench.report import Report
from nnjit_studio.cli.bench.options import ADAPTER, PeerOptions, peer_options, publish, scratch
from nnjit_studio.cli.common import note
from nnjit_studio.cli.verbs import option, verb
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.errors import UserError


def load_native(path: Path | None) -> dict[str, Any]:
    """What ``benchmarks/cublas.py`` wrote; nothing without a path.

    Raises
    ------
    UserError
        When the file is not its.
    """
    if path is None:
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not all(isinstance(ms, float) for ms in found["gpu_ms"].values()):
            raise ValueError("its times are no numbers")
        return {key: found[key] for key in ("library", "device", "how", "gpu_ms")}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise UserError(
            f"{str(path)!r} is not what benchmarks/cublas.py writes: {e}.", "Run that again."
        ) from e


def kernels_on_gpu(
    shapes: str | None, most: int | None, native: dict[str, Any], gpu: str, given: PeerOptions
) -> None:
    """``nnjit bench kernels --backend webgpu``."""
    lab, wanted = gpu == "lab", kernel_job.parse_shapes(shapes)
    with closing(CompileProcess()) as process:
        kernels_of = (
            partial(kernel_job.lab_candidates, most)
            if lab
            else partial(kernel_job.candidates, Compiler(process), most)
        )
        dtype = "float16" if lab else "float32"
        compare = partial(kernel_job.compare, wanted, kernels_of, native=native, dtype=dtype)
        _run(compare, gpu, given, kernels_report)


@verb()
def dispatches(
    count: int = option(1000, type=click.IntRange(1, 100_000)),
    gpu: str = ADAPTER,
    given: PeerOptions = peer_options("ort,tfjs", "ort, tfjs"),
) -> None:
    """Time many tiny GPU dispatches, compared with the peers in one browser page.

    A chain of COUNT additions to four numbers, from the first call to its result in the
    page's memory.
    """
    compare = partial(dispatch_job.compare, count)
    _run(compare, gpu, given, dispatch_job.dispatches_report)


@verb()
def gemv4(
    sizes: str = option("4096x4096,4096x11008", "K x N of the matrices."),
    gpu: str = ADAPTER,
    given: PeerOptions = peer_options("ort", "ort"),
) -> None:
    """Time products of one row with 4-bit weights, as in a decoder, against MatMulNBits.

    Chains of weights that are larger than a GPU's cache; f16 where the adapter has it.
    """
    compare = partial(gemv4_job.compare, parse_sizes(sizes))
    _run(compare, gpu, given, gemv4_job.gemv4_report)


def _run(
    compare: Callable[..., dict[str, Any]],
    gpu: str,
    given: PeerOptions,
    report: Callable[[dict[str, Any]], Report],
) -> None:
    """Run a comparison that lacks only its browser and its peers, and publish it."""
    page, versions = given.page(packages=GPU_PEERS, gpu=gpu)
    with scratch() as folder:
        result = compare(options=page(folder), note=note)
    result["versions"] |= versions
    publish(result, report, given.output)
