"""Decoding and encoding of function bodies.

Opcodes with a prefix (0xFB to 0xFE) carry it in bits 16 to 23. Immediates are
numbers, in the order of the binary format, with these forms:

- a memory argument is ``(alignment, offset, memory)``, alignment as a power of two;
- a float is its bits, a vector constant 128 bits, a shuffle its sixteen lanes;
- a block type is a signed number: -64 empty, other negative numbers one value
  type (its byte less 128), a type index otherwise; of a reference type its heap
  type follows;
- ``br_table`` has its labels and then the default; a catch clause is ``(kind,
  tag, label)`` with tag -1 for the kinds that have none; a handler likewise.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.opcodes import CODES, NAMES, SHAPES, code_bytes
from nnjit_studio.wasm_file.tokens import cut, item_end, opcode_at

__all__ = ["CODES", "NAMES", "Body", "Instruction", "code", "decode", "encode", "header"]

MAX_LOCALS = 1_000_000
"""No engine takes as many (V8 stops at 50,000); more are not expanded."""

MEMO_ENTRIES = 1 << 20


class Instruction(NamedTuple):
    """One instruction; ``start`` and ``end`` are offsets in its body."""

    opcode: int
    immediates: tuple[int, ...]
    start: int
    end: int


class Body(NamedTuple):
    """A decoded function body.

    ``locals`` has one type byte for each declared local (parameters excepted;
    references to a heap type give 0x63 or 0x64). ``groups`` are the declarations
    as they stand: ``(count, type bytes)``.
    """

    locals: bytes
    instructions: tuple[Instruction, ...]
    groups: tuple[tuple[int, bytes], ...]


def decode(body: bytes) -> Body:
    """Decode locals and instructions of a function body (without its size).

    Raises
    ------
    WasmError
        When an opcode is not known or the body is malformed: such a function
        is left alone.
    """
    groups, start = header(body)
    local_types = b"".join(type_[:1] * count for count, type_ in groups)
    tokens = cut(body[start:])
    ends = accumulate(map(len, tokens), initial=start)
    next(ends)
    instructions: list[Instruction] = []
    for token, end in zip(tokens, ends, strict=True):
        opcode, immediates = _memo[token]
        instructions.append(Instruction(opcode, immediates, start, end))
        start = end
    if not instructions or instructions[-1].opcode != CODES["end"]:
        raise WasmError("A function does not end with an end.")
    return Body(local_types, tuple(instructions), groups)


def header(body: bytes) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """The declarations of locals, and the offset of the first instruction.

    Raises
    ------
    WasmError
        When there are more than a million of them, or the body ends too early.
    """
    count, at = leb.read_unsigned(body, 0)
    if count > len(body):
        raise WasmError("A function has more declarations of locals than bytes.")
    groups: list[tuple[int, bytes]] = []
    total = 0
    for _ in range(count):
        n, at = leb.read_unsigned(body, at)
        end = item_end(body, at, "T")
        groups.append((n, body[at:end]))
        at = end
        total += n
    if total > MAX_LOCALS:
        raise WasmError(f"A function declares {total} locals.")
    return tuple(groups), at


def encode(opcode: int, immediates: tuple[int, ...] = ()) -> bytes:
    """Encode one instruction, every number in as few bytes as possible."""
    out = bytearray(code_bytes(opcode))
    rest = list(immediates)
    for letter in SHAPES[opcode]:
        out += _encode_part(letter, rest)
    return bytes(out)


def code(name: str, *immediates: int) -> bytes:
    """One instruction by its name."""
    return encode(CODES[name], immediates)


def _encode_part(letter: str, rest: list[int]) -> bytes:
    """Encode what ``letter`` takes from the front of ``rest``, and remove it there."""
    if letter in "Vv48LTcr":
        return _encode_wide(letter, rest)
    value = rest.pop(0)
    if letter == "u":
        return leb.unsigned(value)
    if letter == "b":
        return bytes([value])
    if letter == "m":
        offset, memory = rest.pop(0), rest.pop(0)
        named = leb.unsigned(value | 0x40) + leb.unsigned(memory) if memory else leb.unsigned(value)
        return named + leb.unsigned(offset)
    out = leb.signed(value)
    if letter in "th" and value in _WITH_HEAP[letter]:
        out += _encode_part("h", rest)
    return out


def _encode_wide(letter: str, rest: list[int]) -> bytes:
    if letter in "48V":
        return rest.pop(0).to_bytes(16 if letter == "V" else int(letter), "little")
    if letter == "L":
        lanes, rest[:16] = bytes(rest[:16]), []
        return lanes
    if letter == "v":
        labels, rest[:] = rest[:], []
        return leb.unsigned(len(labels) - 1) + b"".join(map(leb.unsigned, labels))
    out = bytearray(leb.unsigned(count := rest.pop(0)))
    for _ in range(count):
        if letter == "T":
            out += _encode_part("t", rest)
        else:
            kind, tag, label = rest[:3]
            del rest[:3]
            out += bytes([kind]) + (b"" if tag < 0 else leb.unsigned(tag)) + leb.unsigned(label)
    return bytes(out)


# Signed forms of the type bytes that a heap type follows: (ref null), (ref); exact, shared.
_WITH_HEAP = {"t": (0x63 - 128, 0x64 - 128), "h": (0x62 - 128, 0x65 - 128)}


class _Memo(dict[bytes, tuple[int, tuple[int, ...]]]):
    """Instructions by their bytes: most of a module repeats a few thousand of them."""

    def __missing__(self, token: bytes) -> tuple[int, tuple[int, ...]]:
        if len(self) >= MEMO_ENTRIES:
            self.clear()
        self[token] = value = parse(token)
        return value


_memo = _Memo()


def parse(token: bytes) -> tuple[int, tuple[int, ...]]:
    """Opcode and immediates of one instruction's bytes, as :func:`~.tokens.cut` gives them."""
    opcode, at = opcode_at(token, 0)
    immediates: list[int] = []
    for letter in SHAPES[opcode]:
        at = _parse_part(token, at, letter, immediates)
    return opcode, tuple(immediates)


def _parse_part(token: bytes, at: int, letter: str, out: list[int]) -> int:
    """Append the immediates of one letter to ``out``; return the offset behind them."""
    if letter == "b":
        out.append(token[at])
        return at + 1
    if letter == "u":
        value, at = leb.read_unsigned(token, at)
        out.append(value)
    elif letter == "m":
        flags, at = leb.read_unsigned(token, at)
        memory, at = leb.read_unsigned(token, at) if flags & 0x40 else (0, at)
        offset, at = leb.read_unsigned(token, at)
        out += (flags & ~0x40, offset, memory)
    elif letter in "sth":
        value, at = leb.read_signed(token, at)
        out.append(value)
        if letter in "th" and value in _WITH_HEAP[letter]:
            at = _parse_part(token, at, "h", out)
    elif letter in "48V":
        end = at + (16 if letter == "V" else int(letter))
        out.append(int.from_bytes(token[at:end], "little"))
        at = end
    elif letter == "L":
        out += token[at : at + 16]
        at += 16
    else:
        at = _parse_list(token, at, letter, out)
    return at


def _parse_list(token: bytes, at: int, letter: str, out: list[int]) -> int:
    count, at = leb.read_unsigned(token, at)
    if letter == "v":
        for _ in range(count + 1):
            at = _parse_part(token, at, "u", out)
        return at
    out.append(count)
    for _ in range(count):
        if letter == "T":
            at = _parse_part(token, at, "t", out)
            continue
        kind = token[at]
        # Kinds 0 and 1 of a catch clause name a tag; of a handler both name one, 1 has no label.
        tag, at = (
            leb.read_unsigned(token, at + 1)
            if kind < 2 and (letter == "c" or kind == 0)
            else (-1, at + 1)
        )
        label, at = leb.read_unsigned(token, at)
        out += (kind, tag, label)
    return at
