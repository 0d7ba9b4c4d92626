"""``nnjit bench``, the verbs on WebGPU: kernels, dispatches, 4-bit products."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli_bench_common import (
    adapter_option,
    browser_option,
    markdown_option,
    node_modules_option,
    publish,
    scratch,
)
from nnjit_studio.cli_common import compile_process, json_option, note, sandbox_option
from nnjit_studio.errors import UserError


def _browser_only(target: str) -> None:
    if target == "embedded":
        raise UserError(
            "The peers are measured in a browser, not in the embedded view.",
            "Use --target chromium.",
        )


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
    peers: str,
    shapes: str | None,
    candidates: int | None,
    native: Path | None,
    gpu: str,
    target: str,
    node_modules: Path | None,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """``nnjit bench kernels --backend webgpu``."""
    from nnjit_studio.bench import gpu_kernels as job
    from nnjit_studio.bench.gpu_page import GPU_PEERS
    from nnjit_studio.bench.gpu_tables import gpu_kernels_markdown, gpu_kernels_text
    from nnjit_studio.bench.kernels import find_node_modules, parse_peers

    _browser_only(target)
    wanted, given, beside = job.parse_shapes(shapes), parse_peers(peers), load_native(native)
    folder_of_peers, versions = find_node_modules(given, node_modules, GPU_PEERS)
    lab = gpu == "lab"
    with scratch() as folder, compile_process() as compiler:
        result = job.compare(
            wanted,
            partial(job.lab_candidates, candidates)
            if lab
            else partial(job.candidates, compiler, candidates),
            folder,
            target,
            given,
            folder_of_peers,
            no_sandbox,
            markdown is not None,
            beside,
            note,
            gpu=gpu,
            dtype="float16" if lab else "float32",
        )
    result["versions"] |= versions
    publish(result, gpu_kernels_text, gpu_kernels_markdown, markdown, as_json)


@click.command()
@click.option("--count", type=click.IntRange(1, 100_000), default=1000, show_default=True)
@click.option("--peers", default="ort,tfjs", show_default=True, help="ort, tfjs, or none.")
@adapter_option
@browser_option
@node_modules_option
@markdown_option
@sandbox_option
@json_option
def dispatches(
    count: int,
    peers: str,
    gpu: str,
    target: str,
    node_modules: Path | None,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """What many tiny GPU dispatches cost, beside the peers in one browser page.

    A chain of COUNT additions to four numbers, from the first call to its result in the
    page's memory.
    """
    from nnjit_studio.bench import gpu_dispatches as job
    from nnjit_studio.bench.gpu_page import GPU_PEERS
    from nnjit_studio.bench.kernels import find_node_modules, parse_peers

    _browser_only(target)
    given = parse_peers(peers)
    folder_of_peers, versions = find_node_modules(given, node_modules, GPU_PEERS)
    with scratch() as folder:
        result = job.compare(
            count,
            folder,
            target,
            given,
            folder_of_peers,
            no_sandbox,
            markdown is not None,
            note,
            gpu=gpu,
        )
    result["versions"] |= versions
    publish(result, job.dispatches_text, job.dispatches_markdown, markdown, as_json)


@click.command()
@click.option(
    "--sizes", default="4096x4096,4096x11008", show_default=True, help="K x N of the matrices."
)
@click.option("--peers", default="ort", show_default=True, help="ort, or none.")
@adapter_option
@browser_option
@node_modules_option
@markdown_option
@sandbox_option
@json_option
def gemv4(
    sizes: str,
    peers: str,
    gpu: str,
    target: str,
    node_modules: Path | None,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """Products of one row with 4-bit weights, as a decoder makes them, beside MatMulNBits.

    Chains of weights that are larger than a GPU's cache; f16 where the adapter has it.
    """
    from nnjit_studio.bench import gpu_gemv4 as job
    from nnjit_studio.bench.gpu_page import GPU_PEERS
    from nnjit_studio.bench.kernels import find_node_modules, parse_peers

    _browser_only(target)
    wanted, given = job.parse_sizes(sizes), parse_peers(peers)
    folder_of_peers, versions = find_node_modules(given, node_modules, GPU_PEERS)
    with scratch() as folder:
        result = job.compare(
            wanted,
            folder,
            target,
            given,
            folder_of_peers,
            no_sandbox,
            markdown is not None,
            note,
            gpu=gpu,
        )
    result["versions"] |= versions
    publish(result, job.gemv4_text, job.gemv4_markdown, markdown, as_json)
