"""The graph of calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.instructions import CODES, header
from nnjit_studio.wasm_file.module import Module
from nnjit_studio.wasm_file.tokens import cut

DIRECT = (CODES["call"], CODES["return_call"])


def callees(module: Module, index: int) -> frozenset[int]:
    """The functions that function ``index`` calls directly.

    Raises
    ------
    WasmError
        When its body cannot be decoded.
    """
    body = module.body(index)
    _, start = header(body)
    targets = {token for token in cut(body[start:]) if token[0] in DIRECT}
    return frozenset(leb.read_unsigned(token, 1)[0] for token in targets)


def callers(module: Module) -> Mapping[int, tuple[int, ...]]:
    """The direct callers of every function that has some; bodies not understood call nothing."""
    found: dict[int, list[int]] = defaultdict(list)
    for index in module.defined:
        try:
            targets = callees(module, index)
        except WasmError:
            continue
        for target in targets:
            found[target].append(index)
    return {target: tuple(indices) for target, indices in found.items()}
