"""The module between a rewritten runtime and its kernels: dispatchers and stubs.

A dispatcher reads in shared memory which slot is chosen and calls it, so that one store reaches
all threads, of which none has to turn its event loop. A stub stands in a slot until a thread
first meets it: it has the thread bind the slot's kernel, and calls what is there now.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from nnjit_studio.foreign_wasm.live.layout import (
    CHOSEN,
    CURSOR,
    FIRST_FREE,
    MOST_RECORDS,
    PAGES,
    RECORD_BYTES,
    RECORDING,
    RING,
    SLOTS,
)
from nnjit_studio.foreign_wasm.turbo.kernels.module import SIGNATURE
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import (
    COUNT_K,
    COUNT_M,
    COUNT_N,
    LDA,
    LDC,
    PARAMS,
)
from nnjit_studio.wasm_file.instructions import code
from nnjit_studio.wasm_file.leb import unsigned
from nnjit_studio.wasm_file.sections import function_type, module_of, sized, text, vector

_CALL, _CALL_INDIRECT, _IF, _END = b"\x10", b"\x11", b"\x04\x40", b"\x0b"
_ADD, _SHL, _LESS, _STORE, _RETURN = b"\x6a", b"\x74", b"\x49", b"\x36", b"\x0f"
_KERNEL_TYPE, _SYNC_TYPE = 0, 1
_RECORDED = (COUNT_K, COUNT_M, COUNT_N, LDA, LDC)
_ENTRY, _ROWS = len(PARAMS), len(PARAMS) + 1
"""Locals of a dispatcher: the address of a record, and what the kernel returned."""


def dispatch_module(kernels: int) -> bytes:
    """A module that exports ``dispatch0``.. and fills the table's free slots with stubs.

    It imports ``e.table``, ``e.control`` (the shared control memory) and ``e.sync``, which gets
    the number of a slot and is to put that slot's kernel into the table.
    """
    stubs = [SLOTS * k + s for k in range(kernels) for s in range(FIRST_FREE, SLOTS)]
    bodies = [*map(_dispatcher, range(kernels)), *map(_stub, stubs)]
    exports = [text(f"dispatch{k}") + b"\x00" + unsigned(1 + k) for k in range(kernels)]
    types = [function_type(*SIGNATURE), function_type(SIGNATURE[1], b"")]
    return module_of(
        {
            "type": types,
            "import": _imports(kernels),
            "function": [unsigned(_KERNEL_TYPE)] * len(bodies),
            "export": exports,
            "element": list(_elements(kernels)),
            "code": [sized(body) for body in bodies],
        }
    )


def _imports(kernels: int) -> list[bytes]:
    table = b"\x01\x70\x00" + unsigned(SLOTS * kernels)
    control = b"\x02\x03" + unsigned(PAGES) * 2
    kinds = {"sync": b"\x00" + unsigned(_SYNC_TYPE), "table": table, "control": control}
    return [text("e") + text(name) + kind for name, kind in kinds.items()]


def _elements(kernels: int) -> Iterator[bytes]:
    count = SLOTS - FIRST_FREE
    for k in range(kernels):
        functions = [unsigned(1 + kernels + count * k + i) for i in range(count)]
        yield b"\x00" + _const(SLOTS * k + FIRST_FREE) + _END + vector(functions)


_const, _get, _set = (partial(code, name) for name in ("i32.const", "local.get", "local.set"))


def _word(opcode: bytes, offset: int) -> bytes:
    """An instruction on an aligned word of the control memory."""
    return opcode + unsigned(2) + unsigned(offset)


def _atomic_load(address: int) -> bytes:
    return _const(0) + _word(b"\xfe\x10", address)


_ARGUMENTS = b"".join(map(_get, range(len(PARAMS))))
_THROUGH_TABLE = _CALL_INDIRECT + unsigned(_KERNEL_TYPE) + unsigned(0)


def _dispatcher(kernel: int) -> bytes:
    slot = _atomic_load(CHOSEN + 4 * kernel) + _const(SLOTS * kernel) + _ADD
    called = _ARGUMENTS + slot + _THROUGH_TABLE
    recording = _atomic_load(RECORDING) + _IF + _recorded(kernel, called) + _END
    locals_ = vector([unsigned(2) + SIGNATURE[1]])
    return locals_ + recording + called + _END


def _recorded(kernel: int, called: bytes) -> bytes:
    """The call with its sizes, and the rows that it handled, written to the next record."""
    taken = _const(0) + _const(1) + _word(b"\xfe\x1e", CURSOR) + b"\x22" + unsigned(_ENTRY)
    address = _get(_ENTRY) + _const(RECORD_BYTES.bit_length() - 1) + _SHL + _set(_ENTRY)
    sizes = b"".join(
        _get(_ENTRY) + _get(local) + _word(_STORE, RING + 4 * i)
        for i, local in enumerate(_RECORDED)
    )
    place = RING + 4 * len(_RECORDED)
    kind = _get(_ENTRY) + _const(kernel) + _word(_STORE, place)
    rows = called + _set(_ROWS) + _get(_ENTRY) + _get(_ROWS) + _word(_STORE, place + 4)
    written = address + sizes + kind + rows + _get(_ROWS) + _RETURN
    return taken + _const(MOST_RECORDS) + _LESS + _IF + written + _END


def _stub(slot: int) -> bytes:
    bound = _const(slot) + _CALL + unsigned(0)
    return vector([]) + bound + _ARGUMENTS + _const(slot) + _THROUGH_TABLE + _END
