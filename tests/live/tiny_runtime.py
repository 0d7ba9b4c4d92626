"""A small runtime with kernels of the contract of MLAS, in the assembler's own bytes."""

from __future__ import annotations

from nnjit_studio.compiler.wasm.encode import encode_body
from nnjit_studio.foreign_wasm.turbo.kernels.module import SIGNATURE
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import PARAMS, Mode, Tile, sgemm
from nnjit_studio.wasm_file.leb import signed, unsigned
from nnjit_studio.wasm_file.module import MAGIC
from nnjit_studio.wasm_file.sections import function_type, section, sized, text, vector

ZERO, ADD, WALK, ROWS = range(4)
"""Indices: the two kernels, a caller that walks over all rows with ``ZERO``, and an export that
hands one call to ``ADD`` on."""
_ARGUMENTS = b"".join(b"\x20" + unsigned(n) for n in range(len(PARAMS)))
_A, _C, _M, _LDA, _LDC, _HANDLED = 0, 2, 4, 6, 7, 9


def runtime(keeps: bool = True, in_table: bool = False, exported: bool = False) -> bytes:
    """A module with a memory, ``walk`` and ``rows``.

    Parameters
    ----------
    keeps
        Whether ``walk`` uses the rows that a kernel returns; without, it counts them one by one.
    in_table, exported
        Whether ``ADD`` can be reached through a table, or by a name.
    """
    original = Tile(2, 16)
    bodies = [encode_body(sgemm(mode, original, False)) for mode in Mode]
    bodies += [_walk(keeps), _rows()]
    names = {"walk": WALK, "rows": ROWS, **({"add": ADD} if exported else {})}
    exports = [text(name) + b"\x00" + unsigned(index) for name, index in names.items()]
    table = [section(4, vector([b"\x70\x00\x01"]))] if in_table else []
    elements = [section(9, vector([b"\x00\x41\x00\x0b" + vector([unsigned(ADD)])]))]
    return b"".join(
        (
            MAGIC,
            section(1, vector([function_type(*SIGNATURE)])),
            section(3, vector([b"\x00"] * len(bodies))),
            *table,
            section(5, vector([b"\x00\x08"])),
            section(7, vector([*exports, text("memory") + b"\x02\x00"])),
            *(elements if in_table else []),
            section(10, vector([sized(body) for body in bodies])),
        )
    )


def _walk(keeps: bool) -> bytes:
    """Calls ``ZERO`` on what is left of the rows until none is."""
    get, put = (lambda n: b"\x20" + unsigned(n)), (lambda n: b"\x21" + unsigned(n))
    called = _ARGUMENTS + b"\x10" + unsigned(ZERO)
    handled = called + put(_HANDLED) if keeps else called + b"\x1a\x41\x01" + put(_HANDLED)

    def moved(pointer: int, stride: int) -> bytes:
        step = get(stride) + b"\x41" + signed(4) + b"\x6c" + get(_HANDLED) + b"\x6c"
        return get(pointer) + step + b"\x6a" + put(pointer)

    fewer = get(_M) + get(_HANDLED) + b"\x6b" + b"\x22" + unsigned(_M)
    loop = b"\x03\x40" + handled + moved(_A, _LDA) + moved(_C, _LDC) + fewer + b"\x0d\x00\x0b"
    return vector([b"\x01\x7f"]) + loop + get(_HANDLED) + b"\x0b"


def _rows() -> bytes:
    called = _ARGUMENTS + b"\x10" + unsigned(ADD) + b"\x22" + unsigned(_HANDLED)
    return vector([b"\x01\x7f"]) + called + b"\x0b"
