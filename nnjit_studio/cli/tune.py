"""Verbs that tune a model: ``tune``, and ``studio`` with the window around it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from nnjit_studio.cli.common import (
    backend_options,
    budget_option,
    database_option,
    inputs_option,
    json_option,
    lab_option,
    load_inputs,
    model_argument,
    note,
    print_json,
    sandbox_option,
    say,
    target_option,
    threads_option,
    workbench,
)
from nnjit_studio.cli.import_options import shape_options
from nnjit_studio.errors import NnjitError, UserError
from nnjit_studio.support.files import replacing

report_option = click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report at the end: Markdown for a name in .md, else HTML with plots.",
)


@click.command()
@shape_options
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option(
    "--tune", "seconds", type=click.FloatRange(0), help="Tune at once, for so many seconds."
)
@click.option("--screenshot", type=click.Path(path_type=Path), help="Picture of the window, PNG.")
@click.option("--bundle", type=click.Path(path_type=Path), help="Write the bundle at the end.")
@report_option
@click.option("--quit", "quit_at_end", is_flag=True, help="Leave when the tuning is over.")
@backend_options
@threads_option
@lab_option
@sandbox_option
@database_option
@json_option
@click.pass_context
def studio(
    context: click.Context,
    model: Path | None,
    seconds: float | None,
    screenshot: Path | None,
    bundle: Path | None,
    report: Path | None,
    quit_at_end: bool,
    backend: str,
    gpu: str,
    threads: int,
    lab: str,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Open the window, on MODEL if one is given."""
    from nnjit_studio.analysis.report import summary_table
    from nnjit_studio.tuner.events import Finished
    from nnjit_studio.workbench import jobs

    if not quit_at_end:  # a script does not follow what its user arranged by hand
        from nnjit_studio.ui.window.preferences import stored

        mine = stored()
        if context.get_parameter_source("threads") is ParameterSource.DEFAULT:
            threads = int(mine["threads"])
        if database is None and mine["database"]:
            database = Path(str(mine["database"]))
    with workbench("embedded", database, no_sandbox, threads, lab, backend=backend, gpu=gpu) as (
        bench,
        _,
    ):
        from nnjit_studio.ui.page.host import EngineView
        from nnjit_studio.ui.startup.app import run_studio

        events = run_studio(
            bench,
            model=model,
            tune_seconds=seconds,
            autotune=seconds is not None,
            screenshot=screenshot,
            quit_when_done=quit_at_end,
            make_engine_view=EngineView,
        )
        finished = next((e for e in reversed(events) if isinstance(e, Finished)), None)
        if finished is not None:
            if as_json:
                print_json(finished.to_json())
            else:
                say(summary_table(finished.to_json()))
        for path, write in ((bundle, jobs.export), (report, jobs.report)):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                note(f"wrote {write(bench.model, path)}")
        if screenshot is not None:
            note(f"wrote {screenshot}")


@click.command()
@model_argument
@target_option
@backend_options
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=30.0,
    show_default=True,
    help="At most so long, from the lite spaces on; less when nothing more is expected.",
)
@click.option("--exhaustive", is_flag=True, help="Try every candidate that time allows.")
@click.option(
    "--serve",
    "interval_ms",
    type=click.FloatRange(0),
    is_flag=False,
    flag_value=0.0,
    help="Run the model meanwhile: every so many ms, or back to back without a number.",
)
@budget_option
@click.option("--full-speed", is_flag=True, help="Tune without regard for the running model.")
@threads_option
@lab_option
@inputs_option
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Picture of the progress by rounds and seconds; .png or .svg.",
)
@report_option
@sandbox_option
@database_option
@json_option
def tune(
    model: Path,
    target: str,
    backend: str,
    gpu: str,
    seconds: float,
    exhaustive: bool,
    interval_ms: float | None,
    budget: float,
    full_speed: bool,
    threads: int,
    lab: str,
    inputs: Path | None,
    plot: Path | None,
    report: Path | None,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Tune MODEL in the target; the events are JSON lines, the last is the summary."""
    from nnjit_studio.analysis.report import summary_table
    from nnjit_studio.records.serving import ServeOptions
    from nnjit_studio.tuner.events import Failed, Finished
    from nnjit_studio.workbench import jobs

    if plot is not None:
        check_plot(plot)
    feeds = load_inputs(inputs)
    with workbench(target, database, no_sandbox, threads, lab, backend=backend, gpu=gpu) as (
        bench,
        run,
    ):

        def work() -> None:
            bench.open_model(model, note, feeds)
            if interval_ms is not None:
                bench.model.serve(ServeOptions(interval_ms, None if full_speed else budget / 100))
            for event in bench.tuning.start(seconds, full_speed, exhaustive):
                if as_json:
                    print_json(event.to_json())
                elif isinstance(event, Finished):
                    say(summary_table(event.to_json()))
                else:
                    show(event.to_json())
                if isinstance(event, Failed):
                    raise failure(event.error)

        try:
            run(work)
            if report is not None:
                report.parent.mkdir(parents=True, exist_ok=True)
                note(f"wrote {jobs.report(bench.model, report)}")
        finally:
            if plot is not None and bench.model.events:
                write_plot(plot, [event.to_json() for event in bench.model.events])


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be written, before the work and not after it."""
    if path.suffix not in (".png", ".svg"):
        raise UserError(f"{path.name} is no picture that --plot writes.", "End it in .png or .svg.")
    if not path.parent.is_dir():
        raise UserError(f"There is no folder {str(path.parent)!r}.", "Make it, or check --plot.")


def write_plot(path: Path, events: list[dict[str, Any]]) -> None:
    """The progress of a session, finished or not."""
    from nnjit_studio.analysis.tuning_plot import progress_svg

    svg = progress_svg(events)
    if path.suffix == ".svg":
        with replacing(path, "The picture") as part:
            part.write_text(svg, encoding="utf-8")
    else:
        from nnjit_studio.ui.startup.svg_to_png import write_png

        write_png(svg, path)
    note(f"wrote {path}")


def failure(error: Mapping[str, Any]) -> NnjitError:
    """The exception that an event's error stands for: of its kind."""
    raised = UserError if error["kind"] == UserError.kind else NnjitError
    return raised(error["error"], error["hint"])


def show(event: dict[str, Any]) -> None:
    """One line for a person who watches."""
    if event["event"] == "round":
        note(
            f"{event['t_s']:6.1f} s  {event['workload'].split('#')[0]:<44} "
            f"{event['gflops']:7.1f} GFLOP/s  best {event['best_gflops']:7.1f}"
            + ("" if event["left_s"] is None else f"  about {event['left_s']:.0f} s left")
        )
    elif event["event"] == "space" and event["known"]:
        note(
            f"{event['t_s']:6.1f} s  {event['workload'].split('#')[0]:<44} goes on from "
            f"{event['known']} of {len(event['candidates'])} candidates that the database knows"
        )
    elif event["event"] == "drift":
        again = len(event["doubtful"])
        note(
            f"{event['t_s']:6.1f} s  {event['what']}" + (f" Measuring {again} again." * bool(again))
        )
    elif event["event"] == "served":
        reference = event["p95_reference_ms"]
        quiet = "" if reference is None else f", {reference:.2f} ms untouched"
        note(
            f"{event['t_s']:6.1f} s  served {event['inferences']}, p50 {event['p50_ms']:.2f} ms, "
            f"p95 {event['p95_ms']:.2f} ms{quiet}, tuning {event['duty']:.0%} of the time"
        )
    elif event["event"] == "fell_back":
        note(f"{event['t_s']:6.1f} s  {event['reason']} The model runs in Wasm now.")
    elif event["event"] == "model":
        note(f"{event['t_s']:6.1f} s  model {event['ms']:.2f} ms")
