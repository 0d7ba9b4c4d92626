"""``nnjit bench turbo``: what a changed module gains on operators and models."""

from __future__ import annotations

from pathlib import Path

import click

from nnjit_studio.bench.turbo.compare import Comparison, compare, report
from nnjit_studio.cli.bench.options import BROWSER, Output, publish, scratch
from nnjit_studio.cli.bench.peers import thread_counts
from nnjit_studio.cli.common import note
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import argument, group, option, verb

_MODULE = click.Path(exists=True, dir_okay=False, path_type=Path)


@verb()
def turbo(
    original: Path = argument(type=_MODULE),
    builds: tuple[Path, ...] = argument(nargs=-1, required=True, type=_MODULE),
    cases: str | None = option(None, "Comma list of operators, models of the zoo, .onnx files."),
    threads: str = option("1,2", "Comma list of thread counts."),
    outputs_only: bool = option(False, "Compare outputs, and time nothing."),
    target: str = BROWSER,
    no_sandbox: bool = OPTIONS["no_sandbox"],
    output: Output = group(Output),
) -> None:
    """Compare modules made by `nnjit turbo` with their ORIGINAL.

    ORIGINAL lies in the dist folder of an installed onnxruntime-web or tfjs-backend-wasm. All
    modules run each case in turns in one page; outputs are compared bit by bit.
    """
    named = {build.stem: build for build in builds}
    wanted = [word for word in cases.split(",") if word] if cases else None
    counts = thread_counts(threads)
    what = Comparison(original, named, wanted, counts, target, no_sandbox, not outputs_only)
    with scratch() as folder:
        result = compare(what, folder, note)
    publish(result, report, output)
