"""A runtime's module rewritten once, so that its kernels can be exchanged while it runs.

Each kernel's body moves to a new function at the end, where no index changes, and what stands in
its place calls the first of that kernel's slots in a table, which the originals fill at first: by
itself the new module computes what the old one did. Everything else stays byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.live.layout import MOST_KERNELS, SLOTS, TABLE
from nnjit_studio.wasm_file import edit, leb
from nnjit_studio.wasm_file.append import appended, table_count
from nnjit_studio.wasm_file.instructions import code
from nnjit_studio.wasm_file.module import Module, read
from nnjit_studio.wasm_file.sections import text

_FUNCREF, _WITH_MAXIMUM = b"\x70", b"\x01"
_OF_TABLE = b"\x02"
"""Form of an element segment that names its table (core spec, 5.5.12)."""
_FUNC, _NO_LOCALS, _CALL_INDIRECT, _END = b"\x00", b"\x00", b"\x11", b"\x0b"


def swappable(module: Module, kernels: Sequence[int]) -> bytes:
    """The module with these functions behind a table that it exports.

    Raises
    ------
    WasmError
        When the module exports such a table already, or there are too many kernels.
    """
    if any(export.name == TABLE for export in module.exports):
        raise WasmError(
            "The module has been rewritten already.", "Give the runtime's original file."
        )
    if len(kernels) > MOST_KERNELS:
        raise WasmError(f"The module has {len(kernels)} kernels; {MOST_KERNELS} have room.")
    first = module.defined.stop
    table = table_count(module)
    bodies = {f: _trampoline(module, f, k, table) for k, f in enumerate(kernels)}
    added = [(module.type_index(f), module.body(f)) for f in kernels]
    grown = read(edit.replace(module, bodies, added))
    size = leb.unsigned(SLOTS * len(kernels))
    in_table = _OF_TABLE + leb.unsigned(table)
    segments = [
        in_table + code("i32.const", SLOTS * k) + _END + _FUNC + b"\x01" + leb.unsigned(first + k)
        for k in range(len(kernels))
    ]
    return appended(
        grown,
        {
            "table": [_FUNCREF + _WITH_MAXIMUM + size + size],
            "export": [text(TABLE) + b"\x01" + leb.unsigned(table)],
            "element": segments,
        },
    )


def _trampoline(module: Module, function: int, kernel: int, table: int) -> bytes:
    parameters = range(len(module.type_of(function).params))
    given = b"".join(b"\x20" + leb.unsigned(n) for n in parameters)
    type_ = leb.unsigned(module.type_index(function))
    called = code("i32.const", SLOTS * kernel) + _CALL_INDIRECT + type_ + leb.unsigned(table)
    return _NO_LOCALS + given + called + _END
