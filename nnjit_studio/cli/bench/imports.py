"""``nnjit bench import``: which models import and run, as a table."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from nnjit_studio.cli.common import (
    database_option,
    json_option,
    note,
    print_json,
    sandbox_option,
    target_option,
    workbench,
)
from nnjit_studio.cli.import_options import given_shapes, shape_options
from nnjit_studio.samples.zoo import MODELS, write_model


@click.command(name="import")
@shape_options
@click.argument("paths", type=click.Path(path_type=Path, exists=True), nargs=-1)
@click.option("--zoo", is_flag=True, help="Also every model of `nnjit sample`.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Rows as JSON lines; models that are in it already are not run again.",
)
@click.option("--title", default="Models", show_default=True, help="The table's heading.")
@click.option(
    "--markdown",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the table into this file, in place of the one with the same title.",
)
@target_option
@sandbox_option
@database_option
@json_option
def import_models(
    paths: tuple[Path, ...],
    zoo: bool,
    results: Path | None,
    title: str,
    markdown: Path | None,
    target: str,
    no_sandbox: bool,
    database: Path | None,
    as_json: bool,
) -> None:
    """Import and run models (files or folders of .onnx) and compare with ONNX Runtime.

    Each model runs in the target with untuned kernels on seeded inputs. Open dimensions get
    the numbers of --dim, else 1.
    """
    from nnjit_studio.bench.peers.imports import ImportRow, as_markdown, import_row

    rows = []
    if results is not None and results.exists():
        rows = [ImportRow(**json.loads(line)) for line in results.read_text().splitlines()]
    done = {row.model for row in rows}
    dims = given_shapes().dims
    with (
        tempfile.TemporaryDirectory() as folder,
        workbench(target, database, no_sandbox) as (bench, run),
    ):

        def work() -> None:
            for path in _models(paths, zoo, Path(folder), done):
                row = import_row(bench, path, dims, lambda phase: None)
                rows.append(row)
                told = row.error or f"{row.max_error:.1e} off, {row.run_ms:.1f} ms"
                note(f"{row.model}: {told}")
                if results is not None:
                    results.parent.mkdir(parents=True, exist_ok=True)
                    with results.open("a") as file:
                        file.write(json.dumps(row.to_json()) + "\n")

        run(work)
    text = as_markdown(title, rows)
    if markdown is not None:
        markdown.write_text(_replaced(markdown, title, text))
        note(f"wrote {markdown}")
    if as_json:
        print_json({"ok": True, "rows": [row.to_json() for row in rows]})
    elif markdown is None:
        click.echo(text)


def _models(paths: tuple[Path, ...], zoo: bool, folder: Path, done: set[str]) -> Iterator[Path]:
    """Files one after another; a model of the zoo is written when its turn comes, then removed."""
    for path in paths:
        for file in sorted(path.glob("*.onnx")) if path.is_dir() else [path]:
            if file.stem not in done:
                yield file
    for name in MODELS if zoo else ():
        if name not in done:
            written = write_model(name, folder / f"{name}.onnx")
            yield written
            written.unlink()


def _replaced(file: Path, title: str, text: str) -> str:
    """The file's text with its section of that title exchanged, or the section at its end."""
    held = file.read_text() if file.exists() else ""
    head, found, rest = held.partition(f"## {title}\n")
    if not found:
        return f"{held.rstrip()}\n\n{text}" if held else text
    _, mark, after = rest.partition("\n## ")
    return f"{head}{text}" + (f"\n## {after}" if mark else "")
