"""``nnjit bench``, the verbs on WebGPU: kernels, dispatches, 4-bit products."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from nnjit_studio.bench.report import Report
from nnjit_studio.cli.bench.options import (
    PeerOptions,
    adapter_option,
    peer_options,
    publish,
    scratch,
)
from nnjit_studio.cli.common import compile_process, note
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
    shapes: str | None, candidates: int | None, native: Path | None, gpu: str, given: PeerOptions
) -> None:
    """``nnjit bench kernels --backend webgpu``."""
    from nnjit_studio.bench.gpu import kernels as job
    from nnjit_studio.bench.gpu.tables import kernels_report

    lab = gpu == "lab"
    wanted, known = job.parse_shapes(shapes), load_native(native)
    with compile_process() as compiler:
        kernels_of = (
            partial(job.lab_candidates, candidates)
            if lab
            else partial(job.candidates, compiler, candidates)
        )
        compare = partial(
            job.compare, wanted, kernels_of, native=known, dtype="float16" if lab else "float32"
        )
        _run(compare, gpu, given, kernels_report)


@click.command()
@click.option("--count", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@adapter_option
@peer_options("ort,tfjs", "ort, tfjs")
def dispatches(count: int, gpu: str, given: PeerOptions) -> None:
    """What many tiny GPU dispatches cost, compared with the peers in one browser page.

    A chain of COUNT additions to four numbers, from the first call to its result in the
    page's memory.
    """
    from nnjit_studio.bench.gpu import dispatches as job

    compare = partial(job.compare, count)
    _run(compare, gpu, given, job.dispatches_report)


@click.command()
@click.option(
    "--sizes", default="4096x4096,4096x11008", show_default=True, help="K x N of the matrices."
)
@adapter_option
@peer_options("ort", "ort")
def gemv4(sizes: str, gpu: str, given: PeerOptions) -> None:
    """Products of one row with 4-bit weights, as a decoder makes them, and MatMulNBits.

    Chains of weights that are larger than a GPU's cache; f16 where the adapter has it.
    """
    from nnjit_studio.bench.gpu import gemv4 as job
    from nnjit_studio.bench.gpu.gemv4_chain import parse_sizes

    compare = partial(job.compare, parse_sizes(sizes))
    _run(compare, gpu, given, job.gemv4_report)


def _run(
    compare: Callable[..., dict[str, Any]],
    gpu: str,
    given: PeerOptions,
    report: Callable[[dict[str, Any]], Report],
) -> None:
    """Run a comparison that lacks only its browser and its peers, and publish it."""
    from nnjit_studio.bench.gpu.page import GPU_PEERS
    from nnjit_studio.bench.peers.kernels import find_node_modules, parse_peers

    peers = parse_peers(given.peers)
    node_modules, versions = find_node_modules(peers, given.node_modules, GPU_PEERS)
    with scratch() as folder:
        options = replace(given.browser(folder, gpu), peers=tuple(peers), node_modules=node_modules)
        result = compare(options=options, note=note)
    result["versions"] |= versions
    publish(result, report, given.markdown, given.as_json)
