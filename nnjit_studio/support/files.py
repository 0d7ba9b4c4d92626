"""Files that are replaced completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError


def is_replaced(out: Path) -> bool:
    """Whether a new file takes the place of ``out``: a pipe or a device is written into."""
    return os.path.isfile(out) or not os.path.exists(out)


def behind(out: Path) -> Path:
    """The file that is written under a name: of a link, the one that it leads to.

    Raises
    ------
    OSError
        When links lead to one another.
    """
    found = os.path.realpath(out)
    if os.path.islink(found):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return Path(found)


def to_disk(file: Path) -> None:
    """Wait until a file's bytes are on the disk, which takes seconds of a large one."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


@contextmanager
def replacing(
    out: Path, what: str = "The file", raised: type[UserError] = UserError
) -> Iterator[Path]:
    """A path of the same name to write, which takes the place of ``out`` when the block ends.

    It lies in a folder of its own next to ``out``, so that the change is one
    rename: nobody ever sees half a file, and after an error ``out`` is what it was. A link stays,
    the file behind it is replaced. A pipe or a device gets the bytes when the block ends.

    Raises
    ------
    UserError
        Of the class ``raised``, when the file or its folder cannot be written.
    """
    try:
        whole = behind(out) if is_replaced(out) else None
        near = whole and whole.parent
        with tempfile.TemporaryDirectory(prefix=".nnjit-", dir=near) as folder:
            part = Path(folder) / out.name
            yield part
            if whole is None:
                with part.open("rb") as file, out.open("wb") as opened:
                    shutil.copyfileobj(file, opened)
                return
            to_disk(part)  # else a crash may leave a name without contents
            os.replace(part, whole)
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
