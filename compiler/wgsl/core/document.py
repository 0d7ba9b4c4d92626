"""The kernel document: a WGSL kernel as canonical JSON (docs/webgpu.md)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from nnjit_studio.errors import UserError

VERSION = 1
ENTRY = "main"


@dataclass(frozen=True)
class Dispatch:
    """One compute dispatch."""

    code: str
    workgroups: tuple[int, int, int]
    """Counts in x, y and z, each at most 65535."""
    bindings: tuple[str, ...]
    """What lies at ``@group(0) @binding(i)``: ``aN`` is argument N of the kernel, ``sN``
    scratch buffer N of the document."""
    access: tuple[str, ...]
    """``read`` or ``read_write`` for each binding."""
    entry: str = ENTRY


@dataclass(frozen=True)
class KernelDocument:
    """Dispatches that run in order, in one pass; each sees the writes of those before it."""

    dispatches: tuple[Dispatch, ...]
    scratch: tuple[int, ...] = ()
    """Bytes of each buffer that lives for one run of the kernel, multiples of 4."""
    requires: tuple[str, ...] = ()
    """WebGPU features, and WGSL language features with the prefix ``wgsl:``."""

    def to_bytes(self) -> bytes:
        """UTF-8 JSON with sorted keys and no spaces: equal documents give equal bytes."""
        data = {"version": VERSION, **asdict(self)}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> KernelDocument:
        """The counterpart of :meth:`to_bytes`.

        Raises
        ------
        UserError
            When the bytes are no kernel document of this version.
        """
        try:
            found = json.loads(data)
            if found["version"] != VERSION:
                raise ValueError(f"its version is {found['version']}")
            dispatches = tuple(
                Dispatch(
                    d["code"],
                    (d["workgroups"][0], d["workgroups"][1], d["workgroups"][2]),
                    tuple(d["bindings"]),
                    tuple(d["access"]),
                    d["entry"],
                )
                for d in found["dispatches"]
            )
            return cls(dispatches, tuple(found["scratch"]), tuple(found["requires"]))
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as e:
            raise UserError(
                f"These bytes are no kernel document: {e}.", "Compile the kernel again."
            ) from e
