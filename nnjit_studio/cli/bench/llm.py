"""``nnjit bench``: the verbs about language models on WebGPU."""

from __future__ import annotations

import click

from nnjit_studio.bench.llm import llama as job
from nnjit_studio.bench.llm.decoder.config import LlamaConfig
from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.cli.bench.options import ADAPTER, BROWSER, Output, publish, scratch
from nnjit_studio.cli.common import note
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import COUNT, group, option, verb

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
    "rounds": option(5, type=COUNT),
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


@verb()
def llama(
    config: LlamaConfig = group(LlamaConfig, SIZES),
    text: job.TextRun = group(job.TextRun, RUN),
    gpu: str = ADAPTER,
    target: str = BROWSER,
    no_sandbox: bool = OPTIONS["no_sandbox"],
    output: Output = group(Output),
) -> None:
    """Measure tokens per second of a Llama-shaped decoder with seeded 4-bit weights on WebGPU.

    The default shape is that of Llama 2 7B. Small ones are checked against float64, token by token.
    """
    published = output.markdown is not None
    with scratch() as folder:
        options = BenchOptions(folder, target, no_sandbox=no_sandbox, gpu=gpu, published=published)
        result = job.bench_llama(config, text, options, note)
    publish(result, job.llama_report, output)
