"""``nnjit bench``: the verb about language models."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from nnjit_studio.bench.llm import file as file_job
from nnjit_studio.bench.llm import llama as job
from nnjit_studio.bench.llm.decoder.config import LlamaConfig
from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.peers.kernels import find_node_modules
from nnjit_studio.bench.peers.models import parse_peers
from nnjit_studio.cli.bench.options import ADAPTER, BROWSER, Output, cold, publish, scratch
from nnjit_studio.cli.common import note
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import AT_LEAST_0, COUNT, argument, group, option, verb
from nnjit_studio.records.backend import BACKENDS
from nnjit_studio.records.target_options import TargetOptions

_LEAST = {"layers": 1, "width": 32, "heads": 1, "hidden": 32, "vocabulary": 32, "context": 1}
SIZES = {
    name: option(getattr(LlamaConfig, name), type=click.IntRange(least))
    for name, least in _LEAST.items()
}
SIZES["splits"] = option(
    LlamaConfig.splits,
    "Parts of the cache that attention reads side by side.",
    type=click.IntRange(1, 16),
)


RUN = {
    "prompt_tokens": option(32, "Tokens of the prompt.", flag="--prompt", type=COUNT),
    "tokens": option(128, type=COUNT),
    "rounds": option(11, "From 11 on a ratio has an interval.", type=COUNT),
    "weights": option(
        "gpu",
        "Generate the weights on the GPU, or stream the same ones from a file.",
        type=click.Choice(["gpu", "file"]),
    ),
    "tune": option(
        True,
        "Measure settings of the 4-bit kernels, or use the first guess.",
        flag="--tune/--no-tune",
    ),
    "f16": option(
        False, "Measure settings that multiply in f16 too, where the adapter has shader-f16."
    ),
}


@dataclass(frozen=True)
class Beside:
    """How a FILE is compared."""

    peers: str = option("ort", "Of a FILE: ort, or none.")
    threads: int = option(1, "Of a FILE.", type=click.IntRange(1, 64))
    backend: str = option("wasm", "Of a FILE.", type=click.Choice(BACKENDS))
    seconds: float = option(20.0, "Of a FILE: seconds of tuning.", type=AT_LEAST_0)
    node_modules: Path | None = option(
        None,
        "Where the peer's npm package is; by default here or with the sources.",
        type=click.Path(path_type=Path, file_okay=False),
    )

    def run(self, text: job.TextRun) -> file_job.FileRun:
        seconds = self.seconds if text.tune else 0.0
        amounts = text.prompt_tokens, text.tokens, text.rounds
        return file_job.FileRun(*amounts, self.threads, seconds)


@verb()
def llama(
    file: Path | None = argument(
        required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path)
    ),
    config: LlamaConfig = group(LlamaConfig, SIZES),
    text: job.TextRun = group(job.TextRun, RUN),
    beside: Beside = group(Beside),
    gpu: str = ADAPTER,
    target: str = BROWSER,
    no_sandbox: bool = OPTIONS["no_sandbox"],
    output: Output = group(Output),
) -> None:
    """Measure tokens per second of a decoder.

    With FILE, a decoder exported with past keys and values: texts of ours and of ONNX Runtime Web
    in turns in one page, their tokens compared with each other and with native ONNX
    Runtime. Without: a Llama-shaped decoder with seeded 4-bit weights on WebGPU, by default in the
    shape of Llama 2 7B. Small ones are checked against float64, token by token.
    """
    published = output.markdown is not None
    with scratch() as folder:
        options = BenchOptions(folder, target, no_sandbox=no_sandbox, gpu=gpu, published=published)
        if file is None:
            result = job.bench_llama(config, text, options, note)
        else:
            result = of_file(file, beside, beside.run(text), options)
    publish(result, job.llama_report if file is None else file_job.file_report, output)


def of_file(
    file: Path, beside: Beside, run: file_job.FileRun, options: BenchOptions
) -> dict[str, Any]:
    """Tune in the browser that the texts are timed in, then time them; the JSON document."""
    peers = tuple(parse_peers(beside.backend, beside.peers))
    node_modules, versions = find_node_modules(peers, beside.node_modules)
    on_gpu = beside.backend == "webgpu"
    target = TargetOptions(
        options.target,
        threads=run.threads,
        no_sandbox=options.no_sandbox,
        backend=beside.backend,
        gpu="software" if on_gpu and options.gpu == "software" else "auto",
    )
    options = replace(
        options, peers=peers, node_modules=node_modules, gpu=options.gpu if on_gpu else ""
    )
    with cold(options.folder, target) as opened:
        found = opened.run(lambda: file_job.text_of_file(opened.bench, file, run, options, note))
    found["versions"] |= versions
    return found
