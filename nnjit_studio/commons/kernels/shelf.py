"""Kernels that were compiled before: files by their hash, found by what they were compiled from."""

from __future__ import annotations

import hashlib
import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from nnjit_studio.records import Kernel
from nnjit_studio.support.files import replacing

_DIGEST = re.compile(r"[0-9a-f]{64}")
_IN_MEMORY = 4096


class Shelf:
    """A folder of kernels; several servers may share it, for equal settings give equal bytes.

    Parameters
    ----------
    folder
        Made where it is missing.
    compiler
        Version of the compiler, a part of what a kernel is compiled from.
    """

    def __init__(self, folder: Path, compiler: str) -> None:
        self.folder, self._compiler = folder, compiler
        folder.mkdir(parents=True, exist_ok=True)
        self.data = lru_cache(maxsize=_IN_MEMORY)(self._data)

    def header(self, workload: str, tier: str, settings: str) -> dict[str, Any] | None:
        """What is known of a kernel but its bytes; None where it was not compiled yet."""
        try:
            text = self._card(workload, tier, settings).read_text("utf-8")
        except FileNotFoundError:
            return None
        found: dict[str, Any] = json.loads(text)
        return found

    def keep(self, kernel: Kernel) -> dict[str, Any]:
        """Store a kernel, its bytes before its card; returns its header."""
        file = self.folder / f"{kernel.sha256}.wasm"
        if not file.exists():
            with replacing(file, "The kernel") as part:
                part.write_bytes(kernel.data)
        header = kernel.header()
        with replacing(self._card(kernel.workload, kernel.tier, kernel.settings), "The card") as p:
            p.write_text(json.dumps(header), encoding="utf-8")
        return header

    def _data(self, digest: str) -> bytes:
        """The bytes of a kernel by its SHA-256; kept in memory.

        Raises
        ------
        FileNotFoundError
            When no such kernel was compiled here.
        """
        if not _DIGEST.fullmatch(digest):
            raise FileNotFoundError(digest)
        return (self.folder / f"{digest}.wasm").read_bytes()

    def _card(self, workload: str, tier: str, settings: str) -> Path:
        made_of = json.dumps([self._compiler, workload, tier, settings])
        return self.folder / f"{hashlib.sha256(made_of.encode()).hexdigest()}.json"
