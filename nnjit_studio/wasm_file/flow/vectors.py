"""How many vectors live at once, and how many of them a processor has to spill.

Engines keep the order of the program for vector code, so a value occupies a
register from the instruction that gives it to the last one that takes it. A copy
through a local is the same value. Values that only pass a block count as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from nnjit_studio.wasm_file.flow.graph import BasicBlock, basic_blocks
from nnjit_studio.wasm_file.flow.liveness import SET, TEE, live_locals
from nnjit_studio.wasm_file.flow.nest import Loop, loops
from nnjit_studio.wasm_file.flow.stack import V128, Range, Stack
from nnjit_studio.wasm_file.instructions import Body
from nnjit_studio.wasm_file.module import Module

V8_VECTORS = 15
"""Vector registers that V8 allocates on x64: sixteen, less one for its own use."""


@dataclass(frozen=True)
class VectorPeaks:
    """Most vectors live at once: in the function, and in each loop by its position.

    ``changing`` are those of each innermost loop without the locals that it only
    reads: these stay where they are when they do not fit, and cost a reload each.
    """

    peak: int
    loops: Mapping[int, int]
    changing: Mapping[int, int]

    @property
    def spills(self) -> int:
        """Vectors of the worst innermost loop that are written to memory for want of a register."""
        return max(0, max(self.changing.values(), default=0) - V8_VECTORS)


def vector_peaks(module: Module, index: int, body: Body) -> VectorPeaks:
    """Count the vectors that live at once in a decoded function.

    Raises
    ------
    WasmError
        When the stack's types at some instruction are not known (instructions of
        garbage collection and stack switching), or the nest is broken.
    """
    types = module.type_of(index).params + body.locals
    vectors = {n for n, type_ in enumerate(types) if type_ == V128}
    blocks = basic_blocks(body)
    live = live_locals(body, blocks, sum(1 << n for n in vectors))
    stack = Stack(module, body, vectors)
    ranges = [
        _ranges(body, block, stack, live_out)
        for block, live_out in zip(blocks, live.live_out, strict=True)
    ]
    peaks = [_peak(found) for found in ranges]
    starts = [block.start for block in blocks]
    by_loop: dict[int, int] = {}
    changing: dict[int, int] = {}
    for loop in loops(body):
        inside = range(bisect_right(starts, loop.start), bisect_right(starts, loop.end))
        by_loop[loop.start] = max(peaks[n] for n in inside)
        if loop.innermost:
            written = _written(body, loop)
            changing[loop.start] = max(
                _peak([r for r in ranges[n] if r.local < 0 or r.local in written]) for n in inside
            )
    return VectorPeaks(max(peaks), by_loop, changing)


def _ranges(body: Body, block: BasicBlock, stack: Stack, live_out: int) -> list[Range]:
    """The ranges of the vectors that live in a block, by running it on the symbolic stack."""
    stack.enter()
    for i in range(block.start, block.end):
        stack.step(body.instructions[i])
    return stack.leave(n for n in range(live_out.bit_length()) if live_out >> n & 1)


def _peak(ranges: Sequence[Range]) -> int:
    """The most ranges that overlap: a range frees its register where another begins."""
    events = sorted([(r.last, -1) for r in ranges] + [(r.first, 1) for r in ranges])
    return max(accumulate(change for _, change in events), default=0)


def _written(body: Body, loop: Loop) -> frozenset[int]:
    return frozenset(
        immediates[0]
        for opcode, immediates, *_ in body.instructions[loop.start : loop.end]
        if opcode in (SET, TEE)
    )
