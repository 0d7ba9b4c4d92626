"""The kernel document, a WGSL kernel as canonical JSON (docs/webgpu.md), and its modules' text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from nnjit_studio.compiler.wgsl.core.functions import functions_of
from nnjit_studio.errors import UserError
from nnjit_studio.records.tiers import PACKED_WORDS

VERSION = 1
ENTRY = "main"
PACKED = f"wgsl:{PACKED_WORDS}"
"""What a document requires whose kernels take dot products of packed bytes."""


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


class Shader:
    """Collects the bindings and workgroup variables of one entry point.

    Attributes
    ----------
    bindings, access
        As a :class:`Dispatch` wants them, in the order of :meth:`bind`.
    """

    def __init__(self, enables: Iterable[str] = ()) -> None:
        self._head = [f"enable {name};" for name in enables]
        self.bindings: list[str] = []
        self.access: list[str] = []
        self._functions: set[str] = set()

    def bind(self, buffer: str, variable: str, type_: str, access: str = "read") -> None:
        """Let ``variable`` of a WGSL type stand for a buffer's elements."""
        at = f"@group(0) @binding({len(self.bindings)})"
        self._head.append(f"{at} var<storage, {access}> {variable}: {type_};")
        self.bindings.append(buffer)
        self.access.append(access)

    def workgroup(self, variable: str, type_: str) -> None:
        """A variable in workgroup memory."""
        self._head.append(f"var<workgroup> {variable}: {type_};")

    def line(self, text: str) -> None:
        """Something else of the module: a constant, a function."""
        self._head.append(text)

    def functions(self, code: str) -> None:
        """Declare the functions that some code needs, each once in a module."""
        new = [source for source in functions_of(code) if source not in self._functions]
        self._functions.update(new)
        if new:
            self._head.append("".join(new).rstrip("\n"))

    def dispatch(
        self,
        threads: int,
        workgroups: tuple[int, int, int],
        body: Iterable[str],
        builtins: str = "",
    ) -> Dispatch:
        """The finished dispatch; the body sees ``wg`` (workgroup) and ``li`` (thread in it)."""
        head = [
            *self._head,
            f"@compute @workgroup_size({threads})",
            "fn main(@builtin(workgroup_id) wg: vec3<u32>, "
            f"@builtin(local_invocation_index) li: u32{builtins}) {{",
        ]
        code = "\n".join((*head, *(f"  {line}" for line in body), "}")) + "\n"
        return Dispatch(code, workgroups, tuple(self.bindings), tuple(self.access))
