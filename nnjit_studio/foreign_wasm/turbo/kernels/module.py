"""Modules of donors: their own functions on somebody else's memory."""

from __future__ import annotations

from collections.abc import Mapping

from nnjit_studio.compiler.wasm.encode import encode_body
from nnjit_studio.compiler.wasm.instructions import VALUE_TYPES
from nnjit_studio.compiler.wasm.ir import Function
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import PARAMS, Mode, Tile, sgemm
from nnjit_studio.wasm_file.leb import unsigned
from nnjit_studio.wasm_file.sections import function_type, module_of, sized, text

_I32, _F32 = VALUE_TYPES["i32"], VALUE_TYPES["f32"]
SIGNATURE = (_I32 * (len(PARAMS) - 1) + _F32, _I32)
"""Value types of the contract's parameters and of its result."""
MEMORY = ("env", "memory")
"""Module and name that the memory is imported by."""
MOST_PAGES = 65536


def donor_module(tile: Tile, fma: bool, shared: bool) -> bytes:
    """A module that exports ``zero`` and ``add`` with this tile.

    Parameters
    ----------
    shared
        Whether the memory ``env.memory`` that it imports is a shared one; engines tell these apart.
    """
    return kernel_module({mode.value: sgemm(mode, tile, fma) for mode in Mode}, shared)


def kernel_module(functions: Mapping[str, Function], shared: bool) -> bytes:
    """A module of functions of :data:`SIGNATURE`, exported by name."""
    limits = b"\x03" + unsigned(1) + unsigned(MOST_PAGES) if shared else b"\x00" + unsigned(1)
    memory = text(MEMORY[0]) + text(MEMORY[1]) + b"\x02" + limits
    exports = [text(name) + b"\x00" + unsigned(i) for i, name in enumerate(functions)]
    return module_of(
        {
            "type": [function_type(*SIGNATURE)],
            "import": [memory],
            "function": [unsigned(0)] * len(functions),
            "export": exports,
            "code": [sized(encode_body(f)) for f in functions.values()],
        }
    )
