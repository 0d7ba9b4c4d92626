"""The nest of blocks and loops of a function."""

from __future__ import annotations

from typing import NamedTuple

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file.instructions import CODES, Body
from nnjit_studio.wasm_file.opcodes import codes

OPENING = codes("block loop if try try_table")
LOOP, END, DELEGATE = CODES["loop"], CODES["end"], CODES["delegate"]
BRANCHES = codes(
    "br br_if br_table return unreachable return_call return_call_indirect return_call_ref "
    "throw rethrow throw_ref br_on_null br_on_non_null br_on_cast br_on_cast_fail "
    "br_on_cast_desc_eq br_on_cast_desc_eq_fail else catch catch_all resume resume_throw "
    "resume_throw_ref suspend switch"
)
"""What ends a basic block and is neither a block's start nor its end."""


class Block(NamedTuple):
    """A structured block: the positions of its opening and closing instruction.

    ``parent`` is its place in the list of blocks, -1 below the function itself.
    """

    opcode: int
    start: int
    end: int
    depth: int
    parent: int


class Loop(NamedTuple):
    """A loop: the positions of ``loop`` and its ``end``, depth 1 for an outermost one.

    ``single_block`` holds when its body is straight code that ends with a branch
    back to its start; such a loop is always innermost.
    """

    start: int
    end: int
    depth: int
    innermost: bool
    single_block: bool


def nest(body: Body) -> tuple[Block, ...]:
    """All blocks in the order of their openings.

    Raises
    ------
    WasmError
        When blocks are not closed, or closed too often.
    """
    found: list[Block] = []
    open_: list[int] = []
    last = len(body.instructions) - 1
    for i, (opcode, *_) in enumerate(body.instructions):
        if opcode in OPENING:
            found.append(Block(opcode, i, -1, len(open_) + 1, open_[-1] if open_ else -1))
            open_.append(len(found) - 1)
        elif opcode in (END, DELEGATE):
            if open_:
                n = open_.pop()
                found[n] = found[n]._replace(end=i)
            elif i != last:
                raise WasmError("A function closes more blocks than it opens.")
    if open_:
        raise WasmError("A function does not close all of its blocks.")
    return tuple(found)


def loops(body: Body) -> tuple[Loop, ...]:
    """The loops of a function, in the order of their starts."""
    blocks = nest(body)
    parents = {block.parent for block in blocks}
    depth: list[int] = []
    found: list[Loop] = []
    holds: set[int] = set()
    for block in blocks:
        outer = depth[block.parent] if block.parent >= 0 else 0
        depth.append(outer + (block.opcode == LOOP))
    for n in range(len(blocks) - 1, -1, -1):
        block = blocks[n]
        if block.opcode != LOOP and n not in holds:
            continue
        if block.parent >= 0:
            holds.add(block.parent)
        if block.opcode == LOOP:
            single = n not in parents and _straight(body, block)
            found.append(Loop(block.start, block.end, depth[n], n not in holds, single))
    return tuple(reversed(found))


def _straight(body: Body, block: Block) -> bool:
    inner = body.instructions[block.start + 1 : block.end]
    if not inner or any(opcode in BRANCHES for opcode, *_ in inner[:-1]):
        return False
    opcode, immediates, *_ = inner[-1]
    return opcode in (CODES["br_if"], CODES["br"]) and immediates == (0,)
