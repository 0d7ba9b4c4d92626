"""Programs that an export wrote down, for workloads whose name does not tell them whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.errors import CommonsError, UserError
from nnjit_studio.support.files import replacing

FOLDER = "programs"
"""In the folder of the kernels."""


@dataclass(frozen=True)
class Written:
    """A program on disk: no weights are in it, but sizes and what is computed."""

    workload: str
    """The key, which has the program's fingerprint."""
    packable: bool
    """Whether its B is a weight that may be packed in the model."""
    text: str
    """As of :mod:`nnjit_studio.compiler.ir.program_data`."""


def write_programs(folder: Path, programs: Iterable[Written]) -> int:
    """Write each into a file of its own; returns how many. Those of other models stay.

    Raises
    ------
    UserError
        When the folder cannot be written.
    """
    count = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UserError(f"The folder {folder} cannot be made: {e}.", "Choose another one.") from e
    for each in programs:
        with replacing(_file(folder, each.workload), "The program") as part:
            part.write_text(json.dumps(vars(each)), encoding="utf-8")
        count += 1
    return count


def read_program(folder: Path, workload: str) -> Written | None:
    """The program of a workload; None where it is not in the folder.

    Raises
    ------
    CommonsError
        When the file is not what was written.
    """
    try:
        found = json.loads(_file(folder, workload).read_text("utf-8"))
        return Written(str(found["workload"]), bool(found["packable"]), str(found["text"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as e:
        raise CommonsError(
            f"The server's file of {workload} is damaged.", "Export its program again."
        ) from e


def _file(folder: Path, workload: str) -> Path:
    return folder / f"{hashlib.sha256(workload.encode()).hexdigest()}.json"
