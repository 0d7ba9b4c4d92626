"""Whether a donor may stand in for a function wherever that is called.

A donor may handle more rows in a call than the original does, so each caller has to use the
number of rows that it returns, and all callers have to be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.turbo.kernels.references import referenced
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.flow.nest import Block, nest
from nnjit_studio.wasm_file.instructions import CODES, Body, decode
from nnjit_studio.wasm_file.module import Module

_CALL, _TAIL_CALL, _REFERENCE = CODES["call"], CODES["return_call"], CODES["ref.func"]
_BRANCH, _LOOP, _ELSE, _END = (CODES[name] for name in ("br", "loop", "else", "end"))
_KEPT = {CODES["local.set"], CODES["local.tee"]}


def refused(module: Module, functions: Iterable[int]) -> dict[int, str]:
    """Why functions must be left alone, one sentence for each of them that must."""
    wanted = frozenset(functions)
    found: dict[int, str] = {}
    for export in module.exports:
        if export.kind == "func" and export.index in wanted:
            found[export.index] = f"It is exported as {export.name}, so not all callers are known."
    for index in referenced(module, wanted):
        found[index] = "It can be called through a table, so not all callers are known."
    for caller in module.defined:
        for index, reason in _misused(module, caller, wanted):
            found.setdefault(index, reason)
    return found


def _misused(module: Module, caller: int, wanted: frozenset[int]) -> Iterator[tuple[int, str]]:
    code = module.body(caller)
    mentioned = [f for f in wanted if any(m in code for m in _mentions(f))]
    if not mentioned:
        return
    try:
        body = decode(code)
        blocks = nest(body)
    except WasmError:
        yield from ((f, f"Function {caller} may call it and is not understood.") for f in mentioned)
        return
    for at, (opcode, immediates, *_) in enumerate(body.instructions):
        if not immediates or immediates[0] not in wanted:
            continue
        if opcode == _REFERENCE:
            yield immediates[0], f"Function {caller} takes a reference to it."
        elif opcode == _TAIL_CALL or (opcode == _CALL and not _is_kept(body, blocks, at + 1)):
            yield immediates[0], f"Function {caller} may not use the rows that it returns."


def _mentions(function: int) -> list[bytes]:
    """What an instruction that names the function looks like."""
    return [bytes((code,)) + leb.unsigned(function) for code in (_CALL, _TAIL_CALL, _REFERENCE)]


def _is_kept(body: Body, blocks: Sequence[Block], at: int) -> bool:
    """Whether what is on top of the stack before ``at`` ends in a local, out of blocks too."""
    while at < len(body.instructions):
        opcode, immediates, *_ = body.instructions[at]
        if opcode in _KEPT:
            return True
        around = [b for b in blocks if b.start < at < b.end][::-1]
        if opcode == _BRANCH and immediates[0] < len(around):
            target = around[immediates[0]]
            if target.opcode == _LOOP:
                return False
            at = target.end + 1
        elif opcode == _ELSE:
            at = around[0].end + 1
        elif opcode == _END:
            at += 1
        else:
            return False
    return False
