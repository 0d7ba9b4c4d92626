"""Cutting code into instructions, at the speed of the regular-expression engine.

One pattern, generated from the table of opcodes, matches an instruction of any
shape whose length is not a matter of counting; ``findall`` then cuts a body
without a loop in Python. What the pattern does not take (long jump tables,
numbers in more bytes than they need, rare forms) is cut by reading its shape.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.opcodes import NAMES, SHAPES

PREFIXES = range(0xFB, 0xFF)
COUNTED = 24
"""Lists up to this length are part of the fast pattern."""

_LEB = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_HEAP = rb"(?:[\x62\x65]" + _LEB + rb"|" + _LEB + rb")"
_VALUE = rb"(?:[\x63\x64]" + _HEAP + rb"|[\x65-\x7f])"
_BLOCK = rb"(?:[\x63\x64]" + _HEAP + rb"|" + _LEB + rb")"
_CATCH = rb"(?:[\x00\x01]" + _LEB + _LEB + rb"|[\x02\x03]" + _LEB + rb")"
_HANDLER = rb"(?:\x00" + _LEB + _LEB + rb"|\x01" + _LEB + rb")"
_ITEMS = {"v": _LEB, "T": _VALUE, "c": _CATCH, "r": _HANDLER}
_PARTS = {
    "u": _LEB,
    "s": _LEB,
    "4": rb".{4}",
    "8": rb".{8}",
    "b": rb".",
    "m": rb"(?:[\x00-\x3f]" + _LEB + rb"|[\x40-\x7f]" + _LEB + _LEB + rb")",
    "V": rb".{16}",
    "L": rb".{16}",
    "t": _BLOCK,
    "h": _HEAP,
}
_PART = {letter: re.compile(part, re.DOTALL) for letter, part in (_PARTS | _ITEMS).items()}


def _list(letter: str) -> bytes:
    item = _ITEMS[letter]
    extra = 1 if letter == "v" else 0
    counted = (rb"\x%02x(?:%s){%d}" % (n, item, n + extra) for n in range(COUNTED))
    return rb"(?:" + rb"|".join(counted) + rb")"


def _shape(shape: str) -> bytes:
    return b"".join(_list(letter) if letter in _ITEMS else _PARTS[letter] for letter in shape)


def _characters(codes: list[int]) -> bytes:
    return rb"[" + b"".join(rb"\x%02x" % code for code in sorted(codes)) + rb"]"


@cache
def fast() -> re.Pattern[bytes]:
    """The pattern: all opcodes of one shape share a character class, so few alternatives are tried.

    It takes 30 ms to make.
    """
    first: dict[str, list[int]] = defaultdict(list)
    second: dict[tuple[str, int, bytes], list[int]] = defaultdict(list)
    for code, shape in SHAPES.items():
        prefix, sub = code >> 16, code & 0xFFFF
        if not prefix:
            first[shape].append(code)
        else:
            encoded = leb.unsigned(sub)
            second[shape, prefix, encoded[1:]].append(encoded[0])
    common = sorted(first, key=lambda shape: "u m s".find(shape) if shape else 1)
    plain = [_characters(first[shape]) + _shape(shape) for shape in common]
    prefixed = [
        re.escape(bytes([prefix])) + _characters(codes) + re.escape(rest) + _shape(shape)
        for (shape, prefix, rest), codes in second.items()
    ]
    return re.compile(b"|".join(plain + prefixed), re.DOTALL)


def opcode_at(data: bytes, at: int) -> tuple[int, int]:
    """The opcode at ``at`` with its prefix in bits 16 to 23, and the offset behind it.

    Raises
    ------
    WasmError
        When it is not in the table.
    """
    code = data[at]
    at += 1
    if code in PREFIXES:
        sub, at = leb.read_unsigned(data, at)
        code = code << 16 | sub
    if code not in NAMES:
        raise WasmError(f"The opcode {code:#x} is not known.")
    return code, at


def item_end(data: bytes, at: int, letter: str) -> int:
    """The offset behind one immediate of a shape's letter, lists excepted."""
    match = _PART[letter].match(data, at)
    if match is None:
        raise WasmError(f"An instruction at byte {at} of its function is cut off.")
    return match.end()


def _slow(data: bytes, start: int) -> bytes:
    code, at = opcode_at(data, start)
    for letter in SHAPES[code]:
        if letter in _ITEMS:
            count, at = leb.read_unsigned(data, at)
            count += letter == "v"
            if count > len(data) - at:
                raise WasmError(f"A list at byte {at} of its function is longer than the function.")
            for _ in range(count):
                at = item_end(data, at, letter)
        elif letter == "m":
            flags, at = leb.read_unsigned(data, at)
            for _ in range(1 + (flags >> 6 & 1)):
                at = item_end(data, at, "u")
        else:
            at = item_end(data, at, letter)
    return data[start:at]


def cut(code: bytes) -> list[bytes]:
    """The instructions of ``code``, each as its bytes; joined they are ``code`` again.

    Raises
    ------
    WasmError
        When an opcode is not known, or the last instruction is cut off.
    """
    tokens: list[bytes] = fast().findall(code)
    if sum(map(len, tokens)) == len(code):
        return tokens
    tokens = []
    at = 0
    while at < len(code):
        match = fast().match(code, at)
        token = match.group() if match else _slow(code, at)
        tokens.append(token)
        at += len(token)
    return tokens
