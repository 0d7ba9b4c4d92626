"""The verb ``tune``: a session on the command line."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.analysis.report import summary_table
from nnjit_studio.analysis.tuned_sizes import TunedSizes
from nnjit_studio.analysis.tuning_plot import progress_svg
from nnjit_studio.cli.common import (
    BUDGET,
    INPUTS,
    JSON,
    MODEL,
    note,
    print_json,
    say,
)
from nnjit_studio.cli.commons.known import Known
from nnjit_studio.cli.import_options import IMPORTING, shares_of_option, sizes_of_options
from nnjit_studio.cli.running import Running, workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import AT_LEAST_0, OUTPUT, group, option, same, verb
from nnjit_studio.errors import UserError
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records.serving import ServeOptions
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.support.files import replacing
from nnjit_studio.tuner.events import Event, Failed, Finished, SessionStarted
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.inputs.histogram import read_histogram, runs_at, typical
from nnjit_studio.workbench.inputs.sizes import only_dimension
from nnjit_studio.workbench.plan_forms import tune_plan

PLAN_SHARE = 0.4
"""Of the time limit, for the plan."""
REPORT: Any = option(
    None,
    "Write a report at the end: Markdown if the name ends in .md, else HTML with plots.",
    type=OUTPUT,
)


@dataclass(frozen=True)
class SessionOptions:
    """How long a session tunes, what runs meanwhile, and what it leaves behind."""

    seconds: float = option(
        30.0,
        "Time limit of the whole session once the model is open; tuning ends earlier when no "
        "further gain is expected.",
        type=AT_LEAST_0,
    )
    plan: bool = option(
        False,
        "First tune the plan: import the model by other choices and compare in the page, "
        "for up to two fifths of the time.",
    )
    exhaustive: bool = option(False, "Try every candidate that time allows.")
    interval_ms: float | None = option(
        None,
        "Serve the model meanwhile: an inference every so many ms, or back to back "
        "without a number.",
        flag="--serve",
        type=AT_LEAST_0,
        is_flag=False,
        flag_value=0.0,
    )
    budget: float = same(BUDGET)
    full_speed: bool = option(False, "Tune at full speed, whatever it costs the serving model.")
    commons: str = option(
        "",
        "Ask this server of the commons what is fast on such a device, and measure that first; "
        "the question names no kernel.",
        flag="--from",
    )
    sizes: Mapping[str, tuple[int, ...]] = option(
        None,
        "Tune once for these sizes of an open dimension: at one of them, then the best settings "
        "are compared at all; `nnjit export` takes them for a bundle for any size.",
        multiple=True,
        metavar="[NAME=]N,N,...",
        callback=sizes_of_options,
    )
    shares: tuple[float, ...] = option(
        None,
        "How often each of --sizes runs, in their order; all as often without.",
        metavar="N,N,...",
        callback=shares_of_option,
    )
    histogram: tuple[Path, ...] = option(
        (),
        "How often sizes run, in place of --shares: a file of one size a line, with a count "
        "behind it or none, or of texts, where a tokenizer.json lies beside MODEL; or inputs as "
        ".npz, each file one run. May be given several times. Without --sizes a few sizes of it "
        "stand for all.",
        multiple=True,
    )
    inputs: Feeds | None = same(INPUTS)
    plot: Path | None = option(
        None, "Write a plot of the progress over rounds and seconds, .png or .svg.", type=OUTPUT
    )
    report: Path | None = same(REPORT)


@verb()
def tune(
    importing: ImportOptions = IMPORTING,
    model: Path = MODEL,
    options: SessionOptions = group(SessionOptions),
    target: TargetOptions = target_options(),
    as_json: bool = JSON,
) -> None:
    """Tune MODEL in the target; with --json, print events as JSON lines, the summary last."""
    if options.plot is not None:
        check_plot(options.plot)
    check_sizes(options)
    with workbench(target, importing) as opened:
        bench, quick = opened.bench, options.full_speed

        def work() -> None:
            if options.sizes or options.histogram:
                tune_all(opened, model, options, as_json)
                return
            bench.open_model(model, note, options.inputs)
            if options.interval_ms is not None:
                share = None if quick else options.budget / 100
                bench.model.serve(ServeOptions(options.interval_ms, share))
            seconds = options.seconds
            if options.plan:
                began_s = time.monotonic()
                for event in tune_plan(bench.model, seconds * PLAN_SHARE):
                    tell(event, as_json)
                seconds = max(seconds - (time.monotonic() - began_s), 0.0)
            known = Known.ask(options.commons, bench.page.connect()) if options.commons else None
            for event in bench.tuning.start(seconds, quick, options.exhaustive):
                tell(event, as_json)
                for listener in opened.listeners:
                    listener(event)
                if known and isinstance(event, SessionStarted):
                    note(known.request(event.workloads, bench.tuning.request))
                if isinstance(event, Failed):
                    raise event.cause

        try:
            opened.run(work)
            if options.report is not None:
                options.report.parent.mkdir(parents=True, exist_ok=True)
                note(f"wrote {jobs.report(bench.model, options.report)}")
        finally:
            if options.plot is not None and bench.model.events:
                write_plot(options.plot, [event.to_json() for event in bench.model.events])


def check_sizes(options: SessionOptions) -> None:
    """Refuse what is for one size alone, or for several."""
    if not (options.sizes or options.histogram):
        if options.shares:
            raise UserError("--shares says how often each of --sizes runs.", "Give --sizes too.")
        return
    if options.plan or options.interval_ms is not None or options.commons or options.exhaustive:
        raise UserError(
            "Several sizes are tuned without --plan, --serve, --from and --exhaustive.",
            "Leave them out, or tune one size with --dim.",
        )
    if options.shares and options.histogram:
        raise UserError("Both --shares and --histogram say how often sizes run.", "Give one.")


def tune_all(opened: Running, model: Path, options: SessionOptions, as_json: bool) -> None:
    """Tune at one of the sizes, then compare at all."""
    wanted, shares = options.sizes, options.shares
    if options.histogram:
        if len(wanted) > 1:
            raise UserError("A histogram is of one dimension.", "Give --shares in its place.")
        survey = opened.bench.process.survey(model)
        name = next(iter(wanted), "") or only_dimension(survey)
        histogram = read_histogram(options.histogram, survey, name)
        wanted = wanted or {name: typical(histogram)}
        shares = runs_at(histogram, *wanted.values())
    session = jobs.tune_sizes(
        opened.bench, model, wanted, shares, options.seconds, options.inputs, note
    )
    while True:
        try:
            event = next(session)
        except StopIteration as end:
            found: TunedSizes = end.value
            break
        tell(event, as_json)
        for listener in opened.listeners:
            listener(event)
    if as_json:
        print_json(found.to_json())
    else:
        say(found.as_text())


def tell(event: Event, as_json: bool) -> None:
    """Print an event."""
    if as_json:
        print_json(event.to_json())
    elif isinstance(event, Finished):
        say(summary_table(event.to_json()))
    else:
        show(event.to_json())


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before the work and not after it."""
    if path.suffix not in (".png", ".svg"):
        raise UserError(f"{path.name} is no picture that --plot writes.", "End it in .png or .svg.")
    if not path.parent.is_dir():
        raise UserError(f"There is no folder {str(path.parent)!r}.", "Make it, or check --plot.")


def write_plot(path: Path, events: list[dict[str, Any]]) -> None:
    """The progress of a session, finished or not."""
    svg = progress_svg(events)
    if path.suffix == ".svg":
        with replacing(path, "The picture") as part:
            part.write_text(svg, encoding="utf-8")
    else:
        from nnjit_studio.ui.startup.svg_to_png import write_png

        write_png(svg, path)
    note(f"wrote {path}")


def show(event: dict[str, Any]) -> None:
    """One line for a person who watches."""
    if text := line_of(event):
        note(f"{event['t_s']:6.1f} s  {text}")


def line_of(event: dict[str, Any]) -> str:
    """An event as a line; empty where it is none for people."""
    workload = event.get("workload", "").split("#")[0]
    match event["event"]:
        case "round":
            left = "" if event["left_s"] is None else f"  about {event['left_s']:.0f} s left"
            best = f"{event['gflops']:7.1f} GFLOP/s  best {event['best_gflops']:7.1f}"
            return f"{workload:<44} {best}{left}"
        case "space" if event["known"]:
            known = f"{event['known']} of {len(event['candidates'])} candidates"
            return f"{workload:<44} goes on from {known} that the database knows"
        case "drift":
            again = len(event["doubtful"])
            return f"{event['what']}" + f" Measuring {again} again." * bool(again)
        case "served":
            reference = event["p95_reference_ms"]
            quiet = "" if reference is None else f", {reference:.2f} ms untouched"
            return (
                f"served {event['inferences']}, p50 {event['p50_ms']:.2f} ms, "
                f"p95 {event['p95_ms']:.2f} ms{quiet}, tuning {event['duty']:.0%} of the time"
            )
        case "fell_back":
            return f"{event['reason']} The model runs in Wasm now."
        case "plan":
            tried = f"{event['tried']} of {event['ways']} known ways"
            gain = f", {event['speedup']:.2f}x" * (event["speedup"] > 1)
            return f"the best of {tried} to import the model is in use: {event['settings']}{gain}"
        case "model":
            return f"model {event['ms']:.2f} ms"
    return ""
