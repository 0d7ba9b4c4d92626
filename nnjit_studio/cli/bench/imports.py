"""``nnjit bench import``: which models import and run, as a table."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from nnjit_studio.bench.peers.imports import ImportRow, as_markdown, import_row
from nnjit_studio.cli.common import JSON, note, print_json
from nnjit_studio.cli.import_options import IMPORTING
from nnjit_studio.cli.running import workbench
from nnjit_studio.cli.target_options import target_options
from nnjit_studio.cli.verbs import FILE, argument, group, option, verb
from nnjit_studio.model import GivenShapes, ImportOptions
from nnjit_studio.records.target_options import TargetOptions
from nnjit_studio.samples.zoo import MODELS, write_model


@dataclass(frozen=True)
class TableOptions:
    """The models beyond the arguments, and the files of their rows."""

    zoo: bool = option(False, "Also import every model of `nnjit sample`.")
    results: Path | None = option(
        None, "File of rows as JSON lines; models that it already has are skipped.", type=FILE
    )
    title: str = option("Models", "The table's heading.")
    markdown: Path | None = option(
        None,
        "Write the table to this file, replacing the one with the same title.",
        type=FILE,
    )

    def known(self) -> list[ImportRow]:
        """Rows of an earlier run."""
        if self.results is None or not self.results.exists():
            return []
        return [ImportRow(**json.loads(line)) for line in self.results.read_text().splitlines()]

    def keep(self, row: ImportRow) -> None:
        if self.results is not None:
            self.results.parent.mkdir(parents=True, exist_ok=True)
            with self.results.open("a") as file:
                file.write(json.dumps(row.to_json()) + "\n")


@verb("import")
def import_models(
    importing: ImportOptions = IMPORTING,
    paths: tuple[Path, ...] = argument(type=click.Path(path_type=Path, exists=True), nargs=-1),
    options: TableOptions = group(TableOptions),
    target: TargetOptions = target_options("target", "no_sandbox", "database"),
    as_json: bool = JSON,
) -> None:
    """Import and run models (files or folders of .onnx) and compare with ONNX Runtime.

    Each model runs in the target with untuned kernels on seeded inputs. Open dimensions get the
    numbers of --dim, else the sizes that the window offers first. A model that is refused or off
    by more than 0.001 makes the verb end with 1.
    """
    rows = options.known()
    done = {row.model for row in rows}
    # The inputs are made by --dim, and settle the shapes: not every model has every dimension.
    dims, importing = importing.shapes.dims, replace(importing, shapes=GivenShapes())
    with tempfile.TemporaryDirectory() as folder, workbench(target, importing) as opened:

        def work() -> None:
            for path in _models(paths, options.zoo, Path(folder), done):
                row = import_row(opened.bench, path, dims, lambda phase: None)
                rows.append(row)
                note(f"{row.model}: {row.error or f'{row.max_error:.1e} off, {row.run_ms:.1f} ms'}")
                options.keep(row)

        opened.run(work)
    text = as_markdown(options.title, rows)
    if options.markdown is not None:
        options.markdown.write_text(_replaced(options.markdown, options.title, text))
        note(f"wrote {options.markdown}")
    right = all(row.ok for row in rows)
    if as_json:
        print_json({"ok": right, "rows": [row.to_json() for row in rows]})
    elif options.markdown is None:
        click.echo(text)
    if not right:
        sys.exit(1)


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
