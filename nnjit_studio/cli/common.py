"""What the verbs share: their options, the workbench they drive, how they print."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from nnjit_studio.cli.import_options import hint_shapes, set_import, shape_options
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.engine.browsers.sandbox import NO_SANDBOX, Sandbox, switched_off_by
from nnjit_studio.errors import UserError
from nnjit_studio.records.backend import BACKENDS, GPU_CHOICES, adapter_wanted, choose_backend
from nnjit_studio.records.lab import LABS
from nnjit_studio.support.terminal import printable

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
sandbox_option = click.option(
    "--no-sandbox",
    is_flag=True,
    help="Run the web engine without its sandbox; needed as root, never chosen by itself.",
)
target_option = click.option(
    "--target",
    default="embedded",
    show_default=True,
    help="embedded, chromium, chrome, edge, firefox, or the path of a browser.",
)
database_option = click.option(
    "--database",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="NNJIT_DATABASE",
    help="The kernel database; by default in the user's data folder.",
)
backend_option = click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="wasm",
    show_default=True,
    help="Kernels on the processor, or on a GPU.",
)
gpu_option = click.option(
    "--gpu",
    type=click.Choice(GPU_CHOICES),
    default="auto",
    show_default=True,
    help="auto: the target's own GPU; software: also an adapter that is none; "
    "bridge: through the Studio, as embedded always does.",
)
threads_option = click.option(
    "--threads",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="How many a kernel may run on; of Wasm alone.",
)
lab_option = click.option(
    "--lab",
    type=click.Choice(list(LABS)),
    callback=lambda ctx, option, name: name or "",
    help="An experimental mode of the embedded engine; its results never enter a bundle.",
)
budget_option = click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="Percent that tuning may add to the p95 latency of a serving model.",
)
inputs_option = click.option(
    "--inputs",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Arrays by input name, as .npz.",
)


def backend_options(command: F) -> F:
    """--backend and --gpu."""
    return backend_option(gpu_option(command))


def model_argument(command: F) -> F:
    """MODEL, and the options that settle its open dimensions."""
    return shape_options(click.argument("model", type=click.Path(path_type=Path))(command))


def default_database() -> Path:
    """Where the kernel database is when no flag names one."""
    import platformdirs

    return Path(platformdirs.user_data_dir("nnjit-studio", appauthor=False)) / "kernels.db"


def load_inputs(path: Path | None) -> dict[str, NDArray[Any]] | None:
    """Arrays of an ``.npz`` file; None without a path."""
    if path is None:
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except FileNotFoundError as e:
        raise UserError(f"There is no file {str(path)!r}.", "Check --inputs.") from e
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile, zlib.error) as e:
        raise UserError(
            f"{str(path)!r} is not an .npz file of arrays.", "Write it with numpy.savez."
        ) from e
    hint_shapes(found)
    return found


@contextmanager
def workbench(
    target: str,
    database: Path | None,
    no_sandbox: bool,
    threads: int = 1,
    lab: str = "",
    read_only: bool = False,
    backend: str = "wasm",
    gpu: str = "auto",
) -> Iterator[tuple[Any, Callable[[Callable[[], T]], T]]]:
    """A started workbench, and a function that runs work while its target is up.

    ``read_only`` is for verbs that write no records: they need no turn at the database.
    """
    from nnjit_studio.workbench import Workbench

    flags, off_by = "", NO_SANDBOX if no_sandbox else ""
    if lab and target != "embedded":
        raise UserError(
            f"--lab {lab} is a mode of the embedded engine.", "Leave out --target or --lab."
        )
    if target == "embedded":
        from nnjit_studio.ui.page.process import check_sandbox

        off_by = switched_off_by(no_sandbox)
        flags = check_sandbox(no_sandbox, lab)
    chosen = choose_backend(backend, gpu, target)
    if meant := chosen.threads_note(threads):
        note(meant)
    bench = Workbench(
        database or default_database(),
        target,
        flags,
        Sandbox(off_by),
        threads,
        read_only,
        chosen,
    )
    set_import(bench.compiler)
    try:
        bench.start()

        def run(work: Callable[[], T]) -> T:
            if target == "embedded":
                from nnjit_studio.ui.page.headless import run_with_embedded_page

                return run_with_embedded_page(bench.page.hub, work, no_sandbox, bench.page.cancel)
            from nnjit_studio.engine.browsers import browsers
            from nnjit_studio.engine.runner.kept_page import keep_page

            gpu = adapter_wanted(bench.page.backend)
            with keep_page(bench.page.hub, browsers.find(target), no_sandbox, gpu) as running:
                bench.page.launched_with(running.flags)
                return work()

        yield bench, run
    finally:
        bench.close()


@contextmanager
def compile_process() -> Iterator[CompileProcess]:
    """A compile process of its own, for verbs without a page."""
    compiler = CompileProcess()
    set_import(compiler)
    try:
        yield compiler
    finally:
        compiler.close()


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, allow_nan=False))


def say(text: str) -> None:
    """A result for people, on stdout."""
    click.echo(printable(text, keep="\n\t"))


def note(text: str) -> None:
    """A line for people, on stderr."""
    click.echo(printable(text, keep="\n\t"), err=True)
