"""``nnjit bench``: the verbs about language models on WebGPU."""

from __future__ import annotations

from pathlib import Path

import click

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.cli.bench.options import (
    adapter_option,
    browser_option,
    markdown_option,
    publish,
    scratch,
)
from nnjit_studio.cli.common import json_option, note, sandbox_option


@click.command()
@click.option("--layers", type=click.IntRange(1), default=32, show_default=True)
@click.option("--width", type=click.IntRange(32), default=4096, show_default=True)
@click.option("--heads", type=click.IntRange(1), default=32, show_default=True)
@click.option("--hidden", type=click.IntRange(32), default=11008, show_default=True)
@click.option("--vocabulary", type=click.IntRange(32), default=32000, show_default=True)
@click.option("--context", type=click.IntRange(1), default=2048, show_default=True)
@click.option(
    "--splits",
    type=click.IntRange(1, 16),
    default=4,
    show_default=True,
    help="Parts of the cache that attention reads side by side.",
)
@click.option(
    "--prompt",
    "prompt_tokens",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    help="Tokens that are there already.",
)
@click.option("--tokens", type=click.IntRange(1), default=128, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option(
    "--weights",
    type=click.Choice(["gpu", "file"]),
    default="gpu",
    show_default=True,
    help="Made on the GPU, or written to a file here and streamed from it; equal.",
)
@click.option(
    "--tune/--no-tune",
    default=True,
    show_default=True,
    help="Measure settings of the 4-bit kernels, or take the first guess.",
)
@click.option(
    "--f16",
    is_flag=True,
    help="Measure settings that multiply in f16 too, where the adapter has shader-f16.",
)
@adapter_option
@browser_option
@markdown_option
@sandbox_option
@json_option
def llama(
    layers: int,
    width: int,
    heads: int,
    hidden: int,
    vocabulary: int,
    context: int,
    splits: int,
    prompt_tokens: int,
    tokens: int,
    rounds: int,
    weights: str,
    tune: bool,
    f16: bool,
    gpu: str,
    target: str,
    markdown: Path | None,
    no_sandbox: bool,
    as_json: bool,
) -> None:
    """Tokens a second of a Llama-shaped decoder with seeded 4-bit weights, on WebGPU.

    By default of Llama 2 7B's shape. Small ones are checked against float64, token by token.
    """
    from nnjit_studio.bench.llm import llama as job
    from nnjit_studio.bench.llm.decoder.config import LlamaConfig

    config = LlamaConfig(layers, width, heads, hidden, vocabulary, context, splits)
    run = job.TextRun(prompt_tokens, tokens, rounds, weights, tune, f16)
    published = markdown is not None
    with scratch() as folder:
        options = BenchOptions(folder, target, no_sandbox=no_sandbox, gpu=gpu, published=published)
        result = job.bench_llama(config, run, options, note)
    publish(result, job.llama_report, markdown, as_json)
