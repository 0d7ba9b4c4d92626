"""A decoded function: where its blocks end, what they write, which labels are reached."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from nnjit_studio.wasm_file.flow.nest import nest
from nnjit_studio.wasm_file.instructions import NAMES, Body, Instruction
from nnjit_studio.wasm_file.opcodes import SHAPES

EMPTY = -64
"""The block type of a block without parameters and results."""

OPENING = ("block", "loop", "if", "try", "try_table")
BRANCHES = ("br", "br_if", "br_table", "br_on_null", "br_on_non_null", "delegate", "rethrow")
WRITES = ("local.set", "local.tee")


@dataclass(frozen=True)
class Code:
    """Instructions of a function with its locals' types, parameters first (type bytes)."""

    body: Body
    types: bytes

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(NAMES[i.opcode] for i in self.instructions)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        return self.body.instructions

    @cached_property
    def ends(self) -> dict[int, int]:
        """The ``end`` of each block, by the instruction that opens it."""
        return {block.start: block.end for block in nest(self.body)}

    @cached_property
    def reached(self) -> frozenset[int]:
        """Blocks that a branch names."""
        found: set[int] = set()
        opened: list[int] = []
        for i, name in enumerate(self.names):
            if name in OPENING:
                opened.append(i)
            elif name in ("end", "delegate") and opened:
                opened.pop()
            if name in BRANCHES:
                labels = self.instructions[i].immediates
                found |= {opened[-1 - label] for label in labels if label < len(opened)}
            elif name == "try_table":
                found |= set(opened)
        return frozenset(found)

    def loops(self) -> Iterator[int]:
        return (i for i, name in enumerate(self.names) if name == "loop")

    @cached_property
    def depth(self) -> int:
        """Most blocks that lie in one another."""
        deepest, around = 0, list[int]()
        for begin, end in sorted(self.ends.items()):
            while around and around[-1] < begin:
                around.pop()
            around.append(end)
            deepest = max(deepest, len(around))
        return deepest

    @cached_property
    def _writes(self) -> tuple[list[int], list[int]]:
        """Instructions that set locals, and which they set."""
        at = [i for i, name in enumerate(self.names) if name in WRITES]
        return at, [self.instructions[i].immediates[0] for i in at]

    def written(self, begin: int, end: int) -> list[int]:
        """Locals that these instructions set."""
        at, locals_ = self._writes
        return sorted(set(locals_[bisect_left(at, begin) : bisect_right(at, end)]))


def offset_of(instruction: Instruction) -> int:
    """The offset of a memory access, 0 of anything else; -1 in another memory than the first."""
    if not SHAPES[instruction.opcode].startswith("m"):
        return 0
    _, offset, memory = instruction.immediates[:3]
    return -1 if memory else offset


def literal_of(instruction: Instruction) -> object:
    """The constant in an instruction: an int, float, 16 bytes, or the lanes of a shuffle."""
    letters, given = SHAPES[instruction.opcode], instruction.immediates
    if letters == "4":
        return struct.unpack("<f", given[0].to_bytes(4, "little"))[0]
    if letters == "V":
        return given[0].to_bytes(16, "little")
    if letters == "L":
        return given
    return given[-1] if letters in ("s", "b", "mb") else None
