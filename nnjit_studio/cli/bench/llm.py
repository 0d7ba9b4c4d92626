"""``nnjit bench``: the verb about language models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from nnjit_studio.bench.llm import file as job
from nnjit_studio.bench.peers.models import parse_peers
from nnjit_studio.cli.bench.options import (
    ADAPTER,
    PeerOptions,
    cold,
    peer_options,
    publish,
    scratch,
)
from nnjit_studio.cli.common import note
from nnjit_studio.cli.verbs import AT_LEAST_0, COUNT, argument, group, option, verb
from nnjit_studio.records.backend import BACKENDS

RUN = {
    "prompt_tokens": option(32, "Tokens of the prompt.", flag="--prompt", type=COUNT),
    "tokens": option(128, type=COUNT),
    "rounds": option(11, "From 11 on a ratio has an interval.", type=COUNT),
    "threads": option(1, type=click.IntRange(1, 64)),
    "seconds": option(20.0, "Seconds of tuning; 0 for first guesses.", type=AT_LEAST_0),
}


@verb()
def llama(
    file: Path = argument(type=click.Path(exists=True, dir_okay=False, path_type=Path)),
    run: job.FileRun = group(job.FileRun, RUN),
    backend: str = option("wasm", type=click.Choice(BACKENDS)),
    gpu: str = ADAPTER,
    given: PeerOptions = peer_options("ort", "ort"),
) -> None:
    """Measure tokens per second of a decoder that was exported with past keys and values.

    Texts of our engine and of ONNX Runtime Web in turns in one page, their tokens compared with
    each other and with native ONNX Runtime.
    """
    on_gpu = backend == "webgpu"
    options, versions = given.page(partial(parse_peers, backend), gpu=gpu if on_gpu else "")
    # Tuned in the browser that the texts are timed in.
    where = replace(
        given.target,
        threads=run.threads,
        backend=backend,
        gpu="software" if on_gpu and gpu == "software" else "auto",
    )
    with scratch() as folder, cold(folder, where) as opened:
        found = opened.run(lambda: job.text_of_file(opened.bench, file, run, options(folder), note))
    found["versions"] |= versions
    publish(found, job.file_report, given.output)
