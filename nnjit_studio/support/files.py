"""Files that are replaced completely or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError


@contextmanager
def replacing(
    out: Path, what: str = "The file", raised: type[UserError] = UserError
) -> Iterator[Path]:
    """A path of the same name to write, which takes the place of ``out`` when the block ends.

    It lies in a folder of its own next to ``out``, so that the change is one
    rename: nobody ever sees half a file, and after an error ``out`` is what it was.

    Raises
    ------
    UserError
        Of the class ``raised``, when the file or its folder cannot be written.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".nnjit-", dir=out.parent) as folder:
            part = Path(folder) / out.name
            yield part
            with part.open("rb+") as file:
                os.fsync(file.fileno())  # else a crash may leave a name without contents
            os.replace(part, out)
    except OSError as e:
        raise raised(
            f"{what} {out} cannot be written: {e.strerror or e}.",
            "Choose a folder that you may write, with enough space.",
        ) from e


def write_json(out: Path, document: Any) -> None:
    """Write a document that has no NaN and nothing infinite.

    Raises
    ------
    UserError
        When the file or its folder cannot be written.
    """
    with replacing(out) as part:
        part.write_text(json.dumps(document, allow_nan=False))


def write_own_json(out: Path, document: Any) -> None:
    """The same for data of the program itself, whose folder is made where it is missing."""
    with contextlib.suppress(OSError):  # what cannot be made cannot be written, and that is said
        out.parent.mkdir(parents=True, exist_ok=True)
    write_json(out, document)
