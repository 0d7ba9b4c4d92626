"""Functions of somebody's module that may be kernels of a known contract.

By type and by the shape of their loops only: what they compute is proven by execution, in the
engine that will run them (``resources/live/donors.js``).
"""

from __future__ import annotations

from collections.abc import Iterator

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.turbo.kernels.module import SIGNATURE
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.flow.nest import loops
from nnjit_studio.wasm_file.instructions import CODES, Body, decode
from nnjit_studio.wasm_file.module import Module

LEAST_PRODUCTS = 4
"""Vector products of a loop that is worth a donor."""
_PRODUCTS = {CODES[name] for name in ("f32x4.mul", "f32x4.relaxed_madd", "f32x4.relaxed_nmadd")}
_LOADS = {CODES["v128.load"], CODES["v128.load32_splat"]}
_STORES = {code for name, code in CODES.items() if ".store" in name}


def find(module: Module) -> tuple[int, ...]:
    """Indices of the functions that a donor may replace, if they do what it does.

    Donors address memory with 32 bits.
    """
    wide = any(memory.in_64_bits for memory in module.memories[:1])
    return () if wide else tuple(_found(module))


def _found(module: Module) -> Iterator[int]:
    for index in module.defined:
        if tuple(module.types[module.type_index(index)] or ()) != SIGNATURE:
            continue
        try:
            if _multiplies(decode(module.body(index))):
                edit.lift(module, [index], pages=1)
                yield index
        except WasmError:  # what is not understood, or cannot stand alone, is left alone
            continue


def _multiplies(body: Body) -> bool:
    """Whether an innermost loop loads and multiplies vectors and stores nothing."""
    for loop in loops(body):
        codes = [i.opcode for i in body.instructions[loop.start : loop.end]]
        products = sum(code in _PRODUCTS for code in codes)
        if (
            loop.innermost
            and products >= LEAST_PRODUCTS
            and any(code in _LOADS for code in codes)
            and not any(code in _STORES for code in codes)
        ):
            return True
    return False
