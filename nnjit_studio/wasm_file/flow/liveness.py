"""Live locals at the borders of basic blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nnjit_studio.wasm_file.flow.graph import BasicBlock, basic_blocks
from nnjit_studio.wasm_file.instructions import CODES, Body

GET, SET, TEE = (CODES[f"local.{name}"] for name in ("get", "set", "tee"))


class Liveness(NamedTuple):
    """For each basic block a set of locals as bits: bit n is local n, parameters first."""

    live_in: tuple[int, ...]
    live_out: tuple[int, ...]


def live_locals(body: Body, blocks: Sequence[BasicBlock], mask: int = -1) -> Liveness:
    """Solve live variables backward over the blocks; ``mask`` chooses locals.

    Where an exception can leave a block, what its handler needs is live in all
    of the block.
    """
    used, killed = zip(*(_effects(body, block, mask) for block in blocks), strict=True)
    before = list(used)
    after = [0] * len(blocks)
    predecessors: list[list[int]] = [[] for _ in blocks]
    for n, block in enumerate(blocks):
        for successor in (*block.successors, *block.handlers):
            predecessors[successor].append(n)
    work = list(range(len(blocks)))
    waiting = set(work)
    while work:
        n = work.pop()
        waiting.discard(n)
        block = blocks[n]
        thrown = out = 0
        for handler in block.handlers:
            thrown |= before[handler]
        for successor in block.successors:
            out |= before[successor]
        after[n] = out | thrown
        new = used[n] | out & ~killed[n] | thrown
        if new != before[n]:
            before[n] = new
            for predecessor in predecessors[n]:
                if predecessor not in waiting:
                    waiting.add(predecessor)
                    work.append(predecessor)
    return Liveness(tuple(before), tuple(after))


def live_at(body: Body) -> dict[int, int]:
    """Locals that are read later, as bits, by the position where a basic block begins.

    Raises
    ------
    WasmError
        When the nest is broken or a branch leads out of the function.
    """
    blocks = basic_blocks(body)
    before = live_locals(body, blocks).live_in
    return {block.start: bits for block, bits in zip(blocks, before, strict=True)}


def _effects(body: Body, block: BasicBlock, mask: int) -> tuple[int, int]:
    """Locals that a block reads before it writes them, and those that it writes."""
    used = killed = 0
    for opcode, immediates, *_ in body.instructions[block.start : block.end]:
        if opcode == GET:
            bit = 1 << immediates[0]
            if not killed & bit:
                used |= bit
        elif opcode in (SET, TEE):
            killed |= 1 << immediates[0]
    return used & mask, killed & mask
