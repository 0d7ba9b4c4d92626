"""Common options of the verbs, the inputs of a model, and printing."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import click
import numpy as np
import platformdirs
from numpy.typing import NDArray

from nnjit_studio.cli.verbs import BYTES_ON_STDOUT, FILE, PATH, POSITIVE, argument, option
from nnjit_studio.errors import UserError
from nnjit_studio.support.terminal import printable

JSON: Any = option(False, "Print JSON on stdout.", flag="--json")
MODEL: Any = argument(type=PATH)
INPUTS: Any = option(None, "Input arrays by name, an .npz file.", type=FILE)
BUDGET: Any = option(
    5.0, "Percent that tuning may add to the p95 latency of a serving model.", type=POSITIVE
)
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError)
_LEAST_UNPACKED, _RATIO = 256 << 20, 20
"""Bytes that any file of arrays may unpack to, and times its size from there on."""


def load_inputs(path: Path | None) -> dict[str, NDArray[Any]] | None:
    """Arrays of an ``.npz`` file, float64 as float32; None without a path."""
    if path is None:
        return None
    try:
        if not path.is_file() and path.exists():
            raise ValueError  # opening a FIFO would wait for ever
        with zipfile.ZipFile(path) as stored:
            _check_sizes(path, sum(member.file_size for member in stored.infolist()))
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: _single(arrays[name]) for name in arrays.files}
    except FileNotFoundError as e:
        raise UserError(f"There is no file {str(path)!r}.", "Check --inputs.") from e
    except (OSError, EOFError, MemoryError, ValueError, TypeError, *_BAD_ZIP) as e:
        raise UserError(
            f"{str(path)!r} is not an .npz file of arrays.", "Write it with numpy.savez."
        ) from e


def _single(array: NDArray[Any]) -> NDArray[Any]:
    """NumPy's floats are float64 unless it is told otherwise; no input here is."""
    return array.astype(np.float32) if array.dtype == np.float64 else array


def _check_sizes(path: Path, unpacked: int) -> None:
    """Refuse arrays that unpack to more than a real file would."""
    if unpacked > max(_LEAST_UNPACKED, _RATIO * path.stat().st_size):
        raise UserError(
            f"{str(path)!r} unpacks to {unpacked >> 20} MiB, too much for a file of its size.",
            "Write it with numpy.savez, uncompressed.",
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
