"""Basic blocks of a function and where control goes from them."""

from __future__ import annotations

from typing import NamedTuple

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file.flow.nest import BRANCHES, DELEGATE, END, LOOP, OPENING, nest
from nnjit_studio.wasm_file.instructions import CODES, NAMES, Body, Instruction
from nnjit_studio.wasm_file.opcodes import SHAPES, codes

IF, ELSE, TRY, TRY_TABLE = (CODES[name] for name in ("if", "else", "try", "try_table"))
CATCHES = codes("catch catch_all")
STOPS = codes(
    "unreachable return return_call return_call_indirect return_call_ref throw rethrow throw_ref"
)
BR, BR_TABLE = CODES["br"], CODES["br_table"]
HANDLERS = {code for code, name in NAMES.items() if name.startswith("resume")}
CASTS = {code for code, name in NAMES.items() if name.startswith("br_on_cast")}
TYPED_REFERENCES = (0x63 - 128, 0x64 - 128)
TYPED_HEAPS = (0x62 - 128, 0x65 - 128)


class BasicBlock(NamedTuple):
    """Straight code: positions of its first instruction and behind its last one.

    ``successors`` are places in the list of blocks; ``handlers`` are those where
    control goes when an exception is thrown anywhere in the block.
    """

    start: int
    end: int
    successors: tuple[int, ...]
    handlers: tuple[int, ...]


def basic_blocks(body: Body) -> tuple[BasicBlock, ...]:
    """The basic blocks, in the order of the code; the last one may be empty.

    Raises
    ------
    WasmError
        When the nest is broken or a branch leads out of the function.
    """
    return _Builder(body).build()


class _Builder:
    def __init__(self, body: Body) -> None:
        self.code = body.instructions
        blocks = nest(body)
        self.catches = any(block.opcode in (TRY, TRY_TABLE) for block in blocks)
        self.end_of = {block.start: block.end for block in blocks}
        self.arms: dict[int, list[int]] = {}
        self._find_arms()
        starts = {0, len(self.code)}
        for i, (opcode, *_) in enumerate(self.code):
            if opcode in OPENING or opcode in BRANCHES or opcode in (END, DELEGATE):
                starts.add(i + 1)
        self.starts = sorted(starts)
        self.at = {start: n for n, start in enumerate(self.starts)}

    def _find_arms(self) -> None:
        """Positions of else and catch by the opening of their block."""
        open_: list[int] = []
        for i, (opcode, *_) in enumerate(self.code):
            if opcode in OPENING:
                open_.append(i)
            elif opcode in CATCHES or opcode == ELSE:
                if not open_:
                    raise WasmError("A function has an else or catch outside of a block.")
                self.arms.setdefault(open_[-1], []).append(i)
            elif opcode in (END, DELEGATE) and open_:
                open_.pop()

    def build(self) -> tuple[BasicBlock, ...]:
        found: list[BasicBlock] = []
        self.open: list[tuple[int, bool]] = []
        for start, end in zip(self.starts, self.starts[1:], strict=False):
            handlers = self._handlers()
            positions = self._after(end - 1)
            successors = tuple(dict.fromkeys(self.at[p] for p in positions))
            found.append(BasicBlock(start, end, successors, handlers))
        found.append(BasicBlock(len(self.code), len(self.code), (), ()))
        return tuple(found)

    def _after(self, i: int) -> tuple[int, ...]:
        """Positions that follow the last instruction of a block; keeps the stack of open blocks."""
        instruction = self.code[i]
        opcode = instruction.opcode
        if opcode in OPENING:
            self.open.append((i, True))
            if opcode != IF:
                return (i + 1,)
            arms = self.arms.get(i)
            return i + 1, (arms[0] if arms else self.end_of[i]) + 1
        if opcode == ELSE or opcode in CATCHES:
            opening, _ = self.open[-1]
            self.open[-1] = (opening, False)
            return (self.end_of[opening] + 1,)
        if opcode in (END, DELEGATE):
            if self.open:
                self.open.pop()
                return (i + 1,)
            return ()
        if opcode in STOPS:
            return ()
        targets = tuple(self._target(label) for label in _labels(instruction))
        return targets if opcode in (BR, BR_TABLE) else (*targets, i + 1)

    def _target(self, label: int) -> int:
        if label > len(self.open):
            raise WasmError("A branch leads out of the function.")
        if label == len(self.open):
            return len(self.code)
        opening, _ = self.open[-1 - label]
        return opening + 1 if self.code[opening].opcode == LOOP else self.end_of[opening] + 1

    def _handlers(self) -> tuple[int, ...]:
        """Where an exception can go from within the blocks that are open."""
        if not self.catches:
            return ()
        found: list[int] = []
        for n, (opening, in_body) in enumerate(self.open):
            instruction = self.code[opening]
            if instruction.opcode == TRY and in_body:
                found += (self.at[arm + 1] for arm in self.arms.get(opening, ()))
            elif instruction.opcode == TRY_TABLE:
                depth = len(self.open) - n
                labels = _catch_labels(instruction)
                found += (self.at[self._target(label + depth)] for label in labels)
        return tuple(dict.fromkeys(found))


def _labels(instruction: Instruction) -> tuple[int, ...]:
    """The labels that a branching instruction names."""
    opcode, immediates = instruction.opcode, instruction.immediates
    if opcode in CASTS:
        return immediates[1:2]
    if opcode in HANDLERS:
        return _listed(immediates[len(SHAPES[opcode]) :])
    return immediates if NAMES[opcode].startswith("br") else ()


def _catch_labels(instruction: Instruction) -> tuple[int, ...]:
    """The labels of a try_table's clauses, behind its block type and their count."""
    immediates = instruction.immediates
    at = 1
    if immediates[0] in TYPED_REFERENCES:
        at = 3 if immediates[1] in TYPED_HEAPS else 2
    return _listed(immediates[at + 1 :])


def _listed(clauses: tuple[int, ...]) -> tuple[int, ...]:
    """Labels of clauses (kind, tag, label); a handler of a switch has no tag and no label."""
    triples = zip(clauses[::3], clauses[1::3], clauses[2::3], strict=True)
    return tuple(label for kind, tag, label in triples if tag >= 0 or kind != 1)
