"""The weights file of one or more plans; weights that two plans share are stored once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.compiler.importer.memory import aligned

_Key = tuple[Any, ...]


class Weights:
    """Places for the weights of plans that are built one after another.

    Within a plan every call of :meth:`place` gets a place of its own: kernels
    of one plan may want one weight in two layouts. A later plan takes over
    the places of equal weights that it may want in panels of the same size.
    """

    def __init__(self, path: Path) -> None:
        self.nbytes = 0
        self._path = path
        self._new: list[tuple[int, int, tuple[int, int] | None, NDArray[Any]]] = []
        self._written: dict[_Key, list[int]] = {}
        self._free: dict[_Key, list[int]] = {}
        path.write_bytes(b"")

    def place(self, data: NDArray[Any], nbytes: int, pack: tuple[int, int] | None) -> int:
        """The offset of a weight that takes ``nbytes``, which is what it is padded to."""
        if self._free and (known := self._free.get(_key(data, nbytes, pack))):
            return known.pop(0)
        offset = self.nbytes
        self.nbytes += aligned(nbytes)
        self._new.append((offset, nbytes, pack, data))
        return offset

    def finish_plan(self, more: bool = False) -> None:
        """Write what is new; with ``more`` a further plan begins."""
        with self._path.open("r+b") as file:
            for offset, _, _, data in self._new:
                file.seek(offset)
                file.write(data.data.cast("B"))
            file.truncate(self.nbytes)
        if more:
            for offset, nbytes, pack, data in self._new:
                self._written.setdefault(_key(data, nbytes, pack), []).append(offset)
            self._free = {key: list(offsets) for key, offsets in self._written.items()}
        self._new = []


def _key(data: NDArray[Any], nbytes: int, pack: tuple[int, int] | None) -> _Key:
    digest = hashlib.blake2b(data.data.cast("B"), digest_size=16).digest()
    return data.shape, data.dtype.str, nbytes, pack, digest
