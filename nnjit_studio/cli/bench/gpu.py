"""``nnjit bench``, the verbs on WebGPU: kernels, dispatches, 4-bit products."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.bench.options import Beside, adapter_option, peer_options, publish, scratch
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
    shapes: str | None, candidates: int | None, native: Path | None, gpu: str, beside: Beside
) -> None:
    """``nnjit bench kernels --backend webgpu``."""
    from nnjit_studio.bench.gpu import kernels as job
    from nnjit_studio.bench.gpu.tables import gpu_kernels_markdown, gpu_kernels_text

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
        _beside_peers(compare, gpu, beside, gpu_kernels_text, gpu_kernels_markdown)


@click.command()
@click.option("--count", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@adapter_option
@peer_options("ort,tfjs", "ort, tfjs")
def dispatches(count: int, gpu: str, beside: Beside) -> None:
    """What many tiny GPU dispatches cost, beside the peers in one browser page.

    A chain of COUNT additions to four numbers, from the first call to its result in the
    page's memory.
    """
    from nnjit_studio.bench.gpu import dispatches as job

    compare = partial(job.compare, count)
    _beside_peers(compare, gpu, beside, job.dispatches_text, job.dispatches_markdown)


@click.command()
@click.option(
    "--sizes", default="4096x4096,4096x11008", show_default=True, help="K x N of the matrices."
)
@adapter_option
@peer_options("ort", "ort")
def gemv4(sizes: str, gpu: str, beside: Beside) -> None:
    """Products of one row with 4-bit weights, as a decoder makes them, beside MatMulNBits.

    Chains of weights that are larger than a GPU's cache; f16 where the adapter has it.
    """
    from nnjit_studio.bench.gpu import gemv4 as job

    compare = partial(job.compare, job.parse_sizes(sizes))
    _beside_peers(compare, gpu, beside, job.gemv4_text, job.gemv4_markdown)


def _beside_peers(
    compare: Callable[..., dict[str, Any]],
    gpu: str,
    beside: Beside,
    text: Callable[[dict[str, Any]], str],
    section: Callable[[dict[str, Any]], str],
) -> None:
    """Run a comparison that lacks only its browser and its peers, and publish it."""
    from nnjit_studio.bench.gpu.page import GPU_PEERS
    from nnjit_studio.bench.peers.kernels import find_node_modules, parse_peers

    given = parse_peers(beside.peers)
    node_modules, versions = find_node_modules(given, beside.node_modules, GPU_PEERS)
    with scratch() as folder:
        result = compare(
            folder=folder,
            target=beside.target,
            peers=given,
            node_modules=node_modules,
            no_sandbox=beside.no_sandbox,
            published=beside.markdown is not None,
            note=note,
            gpu=gpu,
        )
    result["versions"] |= versions
    publish(result, text, section, beside.markdown, beside.as_json)
