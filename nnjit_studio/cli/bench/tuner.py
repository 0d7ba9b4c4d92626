"""``nnjit bench``: how well tuning finds, decides and keeps out of the way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from nnjit_studio.bench.tuner import duels as duel_job
from nnjit_studio.bench.tuner.in_place import bench_in_place, in_place_report
from nnjit_studio.bench.tuner.plan_regret import bench_plan_regret, plan_regret_report
from nnjit_studio.bench.tuner.regret import bench_regret, parse_shapes
from nnjit_studio.bench.tuner.serving import bench_serving
from nnjit_studio.bench.tuner.tables import regret_report, serving_report
from nnjit_studio.cli.bench.options import Output, cold, publish, scratch
from nnjit_studio.cli.common import BUDGET, INPUTS, MODEL, note
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import AT_LEAST_0, COUNT, argument, group, option, verb
from nnjit_studio.errors import BugError, UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.samples.zoo import MODELS, write_model

MODEL_FILES = argument(type=click.Path(path_type=Path, exists=True), nargs=-1)
ZOO = option("", "Also these models of `nnjit sample`, a comma list.")


@verb()
def serving(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    seconds: float = option(60.0, type=click.FloatRange(1)),
    interval_ms: float = option(
        0.0,
        "Milliseconds between requests; by default each follows the last answer.",
        flag="--interval",
        type=AT_LEAST_0,
        show_default=False,
    ),
    budget: float = BUDGET,
    inputs: Feeds | None = INPUTS,
    target: TargetOptions = target_options("target", "threads", "no_sandbox"),
    output: Output = group(Output),
) -> None:
    """Measure latency of MODEL while it serves, with and without tuning, in one session."""
    options = ServeOptions(interval_ms, budget / 100)
    with scratch() as folder, cold(folder, target, importing) as opened:
        result = opened.run(
            lambda: bench_serving(opened.bench, model, inputs, seconds, options, note)
        )
    publish(result, serving_report, output)


@verb()
def regret(
    shapes: str | None = option(None, "A count, names or workloads; by default all 30."),
    times: int = option(
        10,
        "Size of the wider space, as a multiple of the lite space.",
        flag="--wide",
        type=click.IntRange(1, 100),
    ),
    rounds: int = option(16, "Rounds within which the best should be found.", type=COUNT),
    target: TargetOptions = target_options("target", "backend", "gpu", "threads", "no_sandbox"),
    output: Output = group(Output),
) -> None:
    """Compare a cold tuning session with exhaustive search of the lite and a wider space."""
    wanted = parse_shapes(shapes)
    with scratch() as folder, cold(folder, target) as opened:
        result = opened.run(lambda: bench_regret(opened.bench, wanted, times, rounds, note))
    publish(result, regret_report, output)


@verb("in-place")
def in_place(
    importing: ImportOptions = IMPORTING,
    paths: tuple[Path, ...] = MODEL_FILES,
    zoo: str = ZOO,
    seconds: float = option(30.0, "Of tuning, for each model.", type=click.FloatRange(1)),
    confirm: bool = option(False, "Have the sessions confirm each winner in place, as they do."),
    target: TargetOptions = target_options("target", "threads", "no_sandbox"),
    output: Output = group(Output),
) -> None:
    """Tune models, then measure inside each whether the winners of its duels hold there."""
    with scratch() as folder, cold(folder, target, importing) as opened:
        models = models_of(paths, zoo, folder)
        result = opened.run(lambda: bench_in_place(opened.bench, models, seconds, confirm, note))
    publish(result, in_place_report, output)


@verb("plan-regret")
def plan_regret(
    importing: ImportOptions = IMPORTING,
    paths: tuple[Path, ...] = MODEL_FILES,
    zoo: str = ZOO,
    most: int = option(40, "Models with more combinations of choices are left out.", type=COUNT),
    minutes: float = option(600.0, "After which nothing more is tried.", type=AT_LEAST_0),
    target: TargetOptions = target_options("target", "threads", "no_sandbox"),
    output: Output = group(Output),
) -> None:
    """Compare the plan that tuning finds with every combination of the import's choices."""
    with scratch() as folder, cold(folder, target, importing) as opened:
        models = models_of(paths, zoo, folder)
        result = opened.run(lambda: bench_plan_regret(opened.bench, models, most, note, minutes))
    publish(result, plan_regret_report, output)


def models_of(paths: Sequence[Path], zoo: str, folder: Path) -> list[Path]:
    """Models of files, and of the zoo by a comma list of names, which are written into a folder."""
    wanted = [name for name in zoo.split(",") if name]
    if unknown := set(wanted) - MODELS.keys():
        raise UserError(f"There is no model {min(unknown)!r}.", f"They are {', '.join(MODELS)}.")
    if not (paths or wanted):
        raise UserError("No model is given.", "Give .onnx files, or --zoo mobilenet-v2.")
    return [*paths, *(write_model(name, folder / f"{name}.onnx") for name in wanted)]


def checked_bounds() -> None:
    """Have the embedded engine check each access in code, from its start on.

    Without this an access beyond the memory ends QtWebEngine's process (6.12
    lacks the signal handler that Chromium has); right kernels make none, and
    are slower with it.
    """
    name = "QTWEBENGINE_CHROMIUM_FLAGS"
    os.environ[name] = f"{os.environ.get(name, '')} --disable-features=WebAssemblyTrapHandler"


def mutants_apart(count: int, threads: int, no_sandbox: bool) -> dict[str, Any]:
    """The wrong kernels in a process of their own: the engine takes its flags but once."""
    program = "from nnjit_studio.cli.main import main; main()"
    words = ["bench", "duels", "--aa=0", "--slower=0", "--faster=0", f"--mutants={count}"]
    words += [f"--threads={threads}", "--json", *(["--no-sandbox"] if no_sandbox else [])]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True, check=False
    )
    try:
        result = json.loads(done.stdout)
        return dict(result["mutants"])
    except (ValueError, KeyError, TypeError) as e:
        raise BugError(f"The wrong kernels were not judged: {done.stdout[:300]!r}.") from e


@dataclass(frozen=True)
class Counts:
    """How many duels of each kind, and how many wrong kernels."""

    aa: int = option(1000, type=click.IntRange(0))
    slower: int = option(200, type=click.IntRange(0))
    faster: int = option(200, type=click.IntRange(0))
    mutants: int = option(500, type=click.IntRange(0))


@verb()
def duels(
    counts: Counts = group(Counts),
    target: TargetOptions = target_options("target", "threads", "no_sandbox"),
    output: Output = group(Output),
) -> None:
    """Count right decisions on swaps: a kernel against itself, 5 % slower, 5 % faster, wrong.

    The options set the number of duels of each kind and of wrong kernels; 0 skips a kind.
    """
    others = counts.aa + counts.slower + counts.faster
    if not others + counts.mutants:
        raise UserError("There is nothing to do.", "Give --aa, --slower, --faster or --mutants.")
    apart = counts.mutants if target.embedded and others else 0
    here = replace(counts, mutants=counts.mutants - apart)
    if target.embedded and here.mutants:
        checked_bounds()
    with scratch() as folder, cold(folder, target) as opened:
        result = opened.run(
            lambda: duel_job.bench_duels(
                opened.bench, here.aa, here.slower, here.faster, here.mutants, note
            )
        )
    if apart:
        result["mutants"] = mutants_apart(apart, target.threads, target.no_sandbox)
    publish(result, duel_job.duels_report, output)
