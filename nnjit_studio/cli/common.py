"""Common options of the verbs, the inputs of a model, and printing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import platformdirs

from nnjit_studio.cli.verbs import BYTES_ON_STDOUT, PATH, POSITIVE, argument, option
from nnjit_studio.model.feeds import read_arrays
from nnjit_studio.support.terminal import printable


class _Arrays(click.Path):
    """A file of arrays by name, which are the option's value."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return read_arrays(Path(os.fsdecode(super().convert(value, param, ctx))))


ARRAYS = _Arrays(dir_okay=False)
JSON: Any = option(False, "Print JSON on stdout.", flag="--json")
MODEL: Any = argument(type=PATH)
INPUTS: Any = option(None, "Input arrays by name, an .npz file.", type=ARRAYS)
BUDGET: Any = option(
    5.0, "Percent that tuning may add to the p95 latency of a serving model.", type=POSITIVE
)


def database_path(given: Path | None) -> Path:
    """The kernel database: the file of the option, or the user's own."""
    folder = platformdirs.user_data_dir("nnjit-studio", appauthor=False)
    return given or Path(folder) / "kernels.db"


def answer(as_json: bool, document: object, text: str) -> None:
    """The result of a verb, as JSON or for people."""
    if as_json:
        print_json(document)
    else:
        say(text)


def print_json(document: object) -> None:
    click.echo(json.dumps(document, allow_nan=False), err=_stdout_is_taken())


def say(text: str) -> None:
    """A result for people, on stdout."""
    click.echo(printable(text, keep="\n\t"), err=_stdout_is_taken())


def _stdout_is_taken() -> bool:
    """Whether a file was written there, as with ``-o /dev/stdout``."""
    context = click.get_current_context(silent=True)
    return context is not None and BYTES_ON_STDOUT in context.meta


def note(text: str) -> None:
    """A line for people, on stderr."""
    click.echo(printable(text, keep="\n\t"), err=True)
