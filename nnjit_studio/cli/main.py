"""The command line: one verb for each job, and the only place that wires the rooms."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from nnjit_studio import __version__
from nnjit_studio.cli import (
    db as cli_db,
)
from nnjit_studio.cli import (
    faster as cli_faster,
)
from nnjit_studio.cli import (
    generate as cli_generate,
)
from nnjit_studio.cli import (
    kernel as cli_kernel,
)
from nnjit_studio.cli import (
    profile as cli_profile,
)
from nnjit_studio.cli import (
    tune as cli_tune,
)
from nnjit_studio.cli.bench import imports as cli_models
from nnjit_studio.cli.bench import main as cli_bench
from nnjit_studio.cli.common import (
    backend_options,
    database_option,
    default_database,
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
from nnjit_studio.cli.import_options import set_import
from nnjit_studio.errors import BundleError, NnjitError, UserError
from nnjit_studio.samples.zoo import MODELS, write_model
from nnjit_studio.support.files import replacing


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nnjit")
@click.option("-v", "--verbose", count=True, help="More log lines on stderr; twice for all.")
def cli(verbose: int) -> None:
    """Tune neural-network kernels inside a real browser engine and ship the result."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    terminal = logging.StreamHandler(sys.stderr)
    terminal.setLevel(level)  # the window's log shows more than the terminal
    logging.basicConfig(
        level=level, handlers=[terminal], format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    if not verbose:
        # Without a GPU, Qt warns of every rendering path that it tries and leaves.
        logging.getLogger("nnjit.qt").setLevel(logging.ERROR)


@cli.command()
@click.argument("name", type=click.Choice(["minilm", *MODELS]))
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option(
    "--sequence",
    type=click.IntRange(1, 1024),
    help="Tokens; 128 for minilm, 384 for the others. gpt2-decode counts past and present ones.",
)
@click.option(
    "--batch", default=1, show_default=True, type=click.IntRange(1, 64), help="Of minilm alone."
)
@json_option
def sample(name: str, output: Path, sequence: int | None, batch: int, as_json: bool) -> None:
    """Write a model as ONNX.

    minilm is all-MiniLM-L6-v2 with its trained weights. The others have their real sizes
    and the operators that torch.onnx writes, with seeded random weights.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    if name == "minilm":
        from nnjit_studio.samples.minilm import write_minilm

        path = write_minilm(output, sequence or 128, batch)
    elif batch != 1:
        raise UserError(f"The model {name!r} is written with batch 1 alone.", "Leave out --batch.")
    else:
        path = write_model(name, output, sequence)
    if as_json:
        print_json({"ok": True, "model": name, "path": str(path)})
    else:
        click.echo(f"wrote {path}")


@cli.command()
@click.option(
    "--microbench",
    is_flag=True,
    help="Measure the device, some seconds, and store what later sessions build on.",
)
@click.option(
    "--gpu",
    type=click.Choice(["hardware", "software"]),
    default="hardware",
    show_default=True,
    help="The adapter that browsers are started for.",
)
@target_option
@sandbox_option
@database_option
@json_option
def doctor(
    microbench: bool,
    gpu: str,
    target: str,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Say what this machine and its browsers can do."""
    import tempfile

    from nnjit_studio.device.measured import with_measured
    from nnjit_studio.doctor.examination import examine
    from nnjit_studio.doctor.report import as_text, report_json

    if microbench:
        measure_device(target, no_sandbox, database, as_json)
        return
    if target != "embedded":
        raise UserError(
            "The doctor examines the embedded engine.", "Add --microbench to measure in a browser."
        )
    known, seen = database or default_database(), list[Any]()

    def probe() -> Any:
        with (
            tempfile.TemporaryDirectory() as folder,
            workbench("embedded", Path(folder) / "kernels.db", no_sandbox) as (bench, run),
        ):
            device = run(bench.page.connect)
            seen.append(bench.page.sandbox)
        return with_measured(device, stored_device(known, device))

    found = examine(
        probe, lambda: seen[0] if seen else None, known.parent, no_sandbox=no_sandbox, gpu=gpu
    )
    document = report_json(found)
    if as_json:
        print_json(document)
    else:
        click.echo(as_text(found))
    if not document["ok"]:
        sys.exit(1)


def stored_device(path: Path, device: Any) -> Any:
    """What a database knows of the device; None, and a line for people, where it cannot be read."""
    from nnjit_studio.database import KernelDatabase

    try:
        with KernelDatabase.open_for_reading(path) as database:
            return database.device(device.device_id, device.target)
    except UserError as e:
        tell(e, as_json=False)
        return None


def measure_device(target: str, no_sandbox: bool, database: Path | None, as_json: bool) -> None:
    """Run the device experiments, store and print what they find."""
    from nnjit_studio.doctor.device_report import device_json, device_text
    from nnjit_studio.workbench.jobs import measure_device as measured_now

    with workbench(target, database, no_sandbox) as (bench, run):
        measured = run(lambda: measured_now(bench.model, note))
        fixed = bench.page.fixed_primitives()
        if as_json:
            print_json({"ok": True, **device_json(measured, bench.page.device, fixed)})
        else:
            click.echo(device_text(measured, bench.page.device, fixed))


@cli.command(name="run")
@model_argument
@inputs_option
@click.option("--outputs", type=click.Path(path_type=Path), required=True)
@target_option
@backend_options
@threads_option
@lab_option
@sandbox_option
@database_option
@json_option
def run_model(
    model: Path,
    inputs: Path | None,
    outputs: Path,
    target: str,
    backend: str,
    gpu: str,
    threads: int,
    lab: str,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """One inference in the target with the best known kernels: arrays in, arrays out."""
    feeds = load_inputs(inputs)
    with workbench(target, database, no_sandbox, threads, lab, True, backend, gpu) as (bench, run):

        def work() -> Any:
            bench.open_model(model, note, feeds)
            bench.model.register_best()
            return bench.model.infer(), bench.page.fallback_reason, bench.page.connect()

        result, fallback, device = run(work)
    outputs.parent.mkdir(parents=True, exist_ok=True)
    # A name alone would get a suffix of its own, so the file is opened here.
    with replacing(outputs) as part, part.open("wb") as file:
        np.savez(file, **result.outputs)
    if as_json:
        shapes = {k: list(v.shape) for k, v in result.outputs.items()}
        print_json(
            {
                "ok": True,
                "outputs": shapes,
                "ms": result.runs_ms[-1],
                "target": device.label,
                "adapter": device.gpu.name if device.gpu else None,
                "fallback_reason": fallback,
            }
        )
    else:
        if fallback:
            note(f"{fallback} This ran in Wasm.")
        say(f"wrote {outputs}: {', '.join(result.outputs)} ({result.runs_ms[-1]:.2f} ms)")


@cli.command()
@model_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
@click.option(
    "--webgpu/--no-webgpu",
    default=None,
    help="Kernels for WebGPU too; by default where the database has a winner of a GPU.",
)
@inputs_option
@threads_option
@database_option
@json_option
def export(
    model: Path,
    output: Path,
    webgpu: bool | None,
    inputs: Path | None,
    threads: int,
    database: Path | None,
    as_json: bool,
) -> None:
    """Write MODEL with its best known kernels as a bundle for any static server.

    Arrays given with --inputs travel in the bundle, as its sample inputs.
    """
    from nnjit_studio.bundle import verify_bundle
    from nnjit_studio.workbench import Workbench
    from nnjit_studio.workbench.jobs import export as export_bundle

    feeds = load_inputs(inputs)
    bench = Workbench(database or default_database(), threads=threads, read_only=True)
    set_import(bench.compiler)
    try:
        bench.open_offline(model, note, feeds)
        path = export_bundle(bench.model, output, webgpu=webgpu)
        tuned = sum(c is not None for c in bench.model.choose_known().values())
    finally:
        bench.close()
    report = whole(verify_bundle(path))
    if as_json:
        print_json({"ok": True, "path": str(path), "tuned": tuned, "files": report.files})
    else:
        click.echo(f"wrote {path}: {report.files} files, {tuned} tuned workloads")


@cli.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@json_option
def verify(bundle: Path, as_json: bool) -> None:
    """Check every byte of a bundle."""
    from nnjit_studio.bundle import verify_bundle

    report = whole(verify_bundle(bundle))
    if as_json:
        print_json({"ok": True, "path": str(bundle), "files": report.files})
    else:
        click.echo(f"{bundle}: {report.files} files, {report.kernels} kernels, all right")


def whole(report: Any) -> Any:
    """The report of a bundle without problems, else the problems as an error."""
    if not report.ok:
        raise BundleError(
            f"The bundle {str(report.path)!r} is damaged: {'; '.join(report.problems[:3])}",
            "Export it again.",
        )
    return report


cli.add_command(cli_tune.studio)
cli.add_command(cli_tune.tune)
cli.add_command(cli_kernel.compile_kernel)
cli.add_command(cli_kernel.space)
cli.add_command(cli_profile.profile)
cli.add_command(cli_profile.diff)
cli_bench.bench.add_command(cli_models.import_models)
cli.add_command(cli_bench.bench)
cli.add_command(cli_db.db)
cli.add_command(cli_faster.faster)
cli.add_command(cli_generate.generate)


def main(arguments: list[str] | None = None) -> None:
    """Entry point ``nnjit``: 0 ok, 1 the job failed, 2 wrong usage."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        cli.main(args=given, prog_name="nnjit", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as e:
        e.show()
        code = 2
    except click.ClickException as e:
        e.show()
        code = e.exit_code
    except (click.Abort, KeyboardInterrupt):
        note("Stopped.")
        code = 1
    except NnjitError as e:
        tell(e, "--json" in given)
        code = 1
    except BrokenPipeError:
        # The reader of our output left; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OSError as e:
        logging.getLogger(__name__).debug("A file or the system refused", exc_info=True)
        name = f"{str(e.filename)!r} cannot be used" if e.filename else "The system refused"
        wrong = UserError(f"{name}: {e.strerror or e}.", "Check its folder and your permissions.")
        tell(wrong, "--json" in given)
        code = 1
    else:
        code = 0
    sys.exit(code)


def tell(error: NnjitError, as_json: bool) -> None:
    """Print an error: a JSON document on stdout, or a sentence on stderr."""
    if as_json:
        print_json(error.to_json())
    else:
        note(f"{error.error} {error.hint}".strip())
