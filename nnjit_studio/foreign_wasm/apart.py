"""A stranger's Wasm file is read in processes of its own, under limits of time and memory.

The program itself gets what the work found and never the file's contents: a file that is made to
hurt costs a sentence, and work that is stopped ends with its process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from nnjit_studio.errors import WasmError
from nnjit_studio.support.limits import seconds_for
from nnjit_studio.support.readers import Ended, spread
from nnjit_studio.wasm_file.module import MAX_BYTES, Module, read

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Part:
    """One of ``of`` shares of a file's functions."""

    path: Path
    nbytes: int
    written_ns: int
    """When the file was changed last."""
    n: int = 0
    of: int = 1

    @property
    def first(self) -> bool:
        """Whether it tells of the rest of the file, too."""
        return self.n == 0

    def functions(self, module: Module) -> list[int]:
        """Its share of the module's functions."""
        return module.share(self.n, self.of)


def parts_of(path: Path, part_bytes: int = MAX_BYTES + 1, most: int | None = None) -> list[Part]:
    """Shares of a file of about so many bytes, ``most`` at most; by default one.

    Raises
    ------
    WasmError
        When the file is not there, or larger than any engine takes.
    """
    try:
        nbytes, written_ns = _stamp(path)
    except OSError as e:
        raise _unread(path, e) from e
    if nbytes > MAX_BYTES:
        raise WasmError(f"The file {path} has {nbytes} bytes, more than any engine takes.")
    count = nbytes // part_bytes + 1
    count = count if most is None else min(most, count)
    return [Part(path, nbytes, written_ns, n, count) for n in range(count)]


def each(work: Callable[..., _Found], parts: Sequence[Part], *given: Any) -> Iterator[_Found]:
    """What the work finds in each part, as it is done.

    Parameters
    ----------
    work
        A function of the module, the part, and what else is ``given``; it is one of a Python
        module, and what it takes and returns is pickled.

    Raises
    ------
    WasmError
        When the file is no module, takes more time or memory than allowed, or was changed since
        it was cut into parts.
    Stopped
    """
    path = parts[0].path
    try:
        yield from spread(partial(_done, work, given), parts, seconds_for(parts[0].nbytes))
    except Ended as e:
        raise WasmError(f"Reading {path} {e}.", e.hint) from e


def whole(work: Callable[..., _Found], path: Path, *given: Any) -> _Found:
    """What the work finds in the whole file, as of :func:`each`, but without a part."""
    (found,) = each(partial(_undivided, work), parts_of(path), *given)
    return found


def _undivided(work: Callable[..., _Found], module: Module, _: Part, *given: Any) -> _Found:
    return work(module, *given)


def _done(work: Callable[..., _Found], given: Sequence[Any], part: Part) -> _Found:
    return work(_module(part.path, part.nbytes, part.written_ns), part, *given)


@cache
def _module(path: Path, *stamp: int) -> Module:
    """A process reads one file, for all its parts."""
    try:
        data, now = path.read_bytes(), _stamp(path)
    except OSError as e:
        raise _unread(path, e) from e
    # Each process reads it by itself: what they find must be of one file.
    if now != stamp:
        raise changed(path)
    try:
        return read(data)
    except WasmError as e:
        said = e.error[:1].lower() + e.error[1:]
        raise WasmError(f"The file {path} cannot be read: {said}", e.hint) from e


def changed(path: Path) -> WasmError:
    """What is said of a file that became another one."""
    return WasmError(f"The file {path} was changed after it was read first.", "Read it again.")


def _stamp(path: Path) -> tuple[int, int]:
    """Size, and when it was changed last."""
    seen = path.stat()
    return seen.st_size, seen.st_mtime_ns


def _unread(path: Path, error: OSError) -> WasmError:
    return WasmError(f"The file {path} cannot be read: {error.strerror}.", "Check the name.")
