"""How many vectors live at once, and how many of them a processor has to spill.

Engines keep the order of the program for vector code, so a value occupies a
register from the instruction that gives it to the last one that takes it. A copy
through a local is the same value. Values that only pass a block count as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnjit_studio.wasm_file.flow.graph import BasicBlock, basic_blocks
from nnjit_studio.wasm_file.flow.liveness import live_locals
from nnjit_studio.wasm_file.flow.nest import loops
from nnjit_studio.wasm_file.flow.stack import Stack
from nnjit_studio.wasm_file.instructions import Body
from nnjit_studio.wasm_file.module import Module

V8_VECTORS = 15
"""Vector registers that V8 allocates on x64: sixteen, less one for its own use."""

V128 = 0x7B


@dataclass(frozen=True)
class VectorPeaks:
    """Most vectors live at once: in the function, and in each loop by its position."""

    peak: int
    loops: Mapping[int, int]

    @property
    def spills(self) -> int:
        """The vectors of the worst loop that V8's registers on x64 cannot hold."""
        return max(0, max(self.loops.values(), default=0) - V8_VECTORS)


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
    peaks = [
        _peak(body, block, stack, _bits(live_out))
        for block, live_out in zip(blocks, live.live_out, strict=True)
    ]
    by_loop = {
        loop.start: max(
            (
                peak
                for block, peak in zip(blocks, peaks, strict=True)
                if loop.start < block.end - 1 <= loop.end
            ),
            default=0,
        )
        for loop in loops(body)
    }
    return VectorPeaks(max(peaks), by_loop)


def _bits(set_: int) -> list[int]:
    return [n for n in range(set_.bit_length()) if set_ >> n & 1]


def _peak(body: Body, block: BasicBlock, stack: Stack, live_out: list[int]) -> int:
    """Run a block on the symbolic stack and sweep over the ranges of its values."""
    stack.enter()
    for i in range(block.start, block.end):
        stack.step(body.instructions[i])
    ranges = stack.leave(live_out)
    change = [0] * (block.end - block.start + 3)
    for first, last in ranges:
        change[first] += 1
        change[last] -= 1
    level = peak = 0
    for step in change:
        level += step
        peak = max(peak, level)
    return peak
