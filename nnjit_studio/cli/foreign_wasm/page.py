"""``nnjit inspect --page`` and ``--run``: where the time of a running page goes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from nnjit_studio.bench.peers.kernels import find_node_modules
from nnjit_studio.cli.common import ARRAYS, answer, note
from nnjit_studio.cli.verbs import FILE, POSITIVE, option
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.devtools.sampling import ThreadProfile
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.foreign_wasm.inspection.hotspots.export import busiest, speedscope
from nnjit_studio.foreign_wasm.inspection.hotspots.pages import (
    Sampling,
    sample_page,
    sample_runtime,
)
from nnjit_studio.foreign_wasm.inspection.hotspots.runtimes import RUNTIMES, write_job
from nnjit_studio.foreign_wasm.inspection.hotspots.samples import hotspots
from nnjit_studio.foreign_wasm.inspection.hotspots.text import as_text
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.support.files import write_json


@dataclass(frozen=True)
class PageOptions:
    """What runs while it is sampled, and where the samples go."""

    page: str = option(
        "", "No file: sample a running page, a folder or an address on this machine."
    )
    run: Path | None = option(None, "No file: sample a runtime that runs this model.", type=FILE)
    runtime: str = option("ort", "Of --run.", type=click.Choice(RUNTIMES))
    seconds: float = option(10.0, "How long --page and --run are sampled.", type=POSITIVE)
    threads: int = option(1, "Of --run.", type=click.IntRange(1, 64))
    inputs: Feeds | None = option(None, "Inputs of --run by name, an .npz file.", type=ARRAYS)
    node_modules: Path | None = option(
        None, "Folder with the runtime's npm package; by default benchmarks/node_modules."
    )
    export: Path | None = option(
        None,
        "Write the samples of all threads for speedscope, or of the busiest thread for DevTools "
        "where the name ends in .cpuprofile.",
        type=FILE,
    )

    @property
    def wanted(self) -> bool:
        return bool(self.page) or self.run is not None


def show_page(
    options: PageOptions,
    importing: ImportOptions,
    engine: str,
    no_sandbox: bool,
    top: int,
    as_json: bool,
) -> None:
    """Run, sample, and tell."""
    if options.export is not None:
        options.export.parent.mkdir(parents=True, exist_ok=True)  # refused before the work
    browser = browsers.find(engine)
    how = Sampling(browser, no_sandbox, seconds=options.seconds)
    threads = sampled(options, importing, how)
    found = hotspots(browsers.version(browser), threads)
    if options.export is not None:
        devtools = options.export.suffix == ".cpuprofile"
        write_json(options.export, busiest(threads) if devtools else speedscope(threads))
        note(f"Wrote {options.export}.")
    answer(as_json, {"ok": True, **found.to_json()}, as_text(found, top))


def sampled(
    options: PageOptions, importing: ImportOptions, how: Sampling
) -> Sequence[ThreadProfile]:
    if options.run is None:
        note(f"{how.browser.name} runs {options.page} for {how.seconds:g} s.")
        return sample_page(options.page, how)
    modules, versions = find_node_modules([options.runtime], options.node_modules)
    assert modules is not None  # else it had raised
    given = options.inputs
    shapes = importing.with_hints(given).shapes
    with tempfile.TemporaryDirectory(prefix="nnjit-page-") as folder:
        write_job(options.run, Path(folder), shapes, given, how.seconds, options.threads)
        said = ", ".join(f"{package} {version}" for package, version in versions.items())
        note(f"{how.browser.name} runs {options.run.name} in {said} for {how.seconds:g} s.")
        with PageServer({"files": Path(folder), "node_modules": modules}) as server:
            return sample_runtime(server, "hotspots.html", how)
