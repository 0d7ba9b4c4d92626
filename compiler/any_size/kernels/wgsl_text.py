"""The numbers in a WGSL text, and the text that reads some of them from a uniform block."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.any_size.kernels.functions import Constant, bits_of
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.model.open_plan import Scalar

SIZES = "open_sizes"
"""The uniform block, as the code calls it."""

_NUMBER = re.compile(
    r"(?<![\w.])(?P<digits>\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|0x[0-9a-fA-F]+|\d+)"
    r"(?P<suffix>[iuf]?)\b"
)
_FIXED = re.compile(r"(array<.*, |@\w+\(|^const .*)$")
"""What stands before a number, on its line, that has to be known when the code is compiled."""


@dataclass(frozen=True)
class Token:
    """A number in the text of a kernel, and where; ``kind`` is ``u``, ``i`` or ``f``."""

    begin: int
    end: int
    kind: str
    value: int | float

    @property
    def constant(self) -> Constant:
        return ("f32", self.value) if self.kind == "f" else ("i32", self.value)

    @property
    def bits(self) -> int:
        """As it lies in the block."""
        return bits_of(self.constant)


def tokens_of(code: str) -> list[Token]:
    """The numbers in a text, in order."""
    found = []
    for each in _NUMBER.finditer(code):
        digits, kind = each["digits"], each["suffix"]
        whole = digits.isdigit() or digits.startswith("0x")
        if kind == "f" or not whole:
            found.append(Token(*each.span(), "f", _f32(float(digits))))
        else:
            found.append(Token(*each.span(), kind or "i", int(digits, 0)))
    return found


def skeleton_of(code: str) -> str:
    """The text without its numbers."""
    return _NUMBER.sub(lambda each: f"#{each['suffix']}", code)


def with_sizes(
    code: str,
    formulas: Sequence[Scalar | None],
    scalars: Sequence[Scalar],
    bindings: int,
    name: str,
) -> str:
    """A text that reads the numbers that have a formula from the uniform block.

    Parameters
    ----------
    formulas
        Of each number of the text.
    scalars
        Elements of the block.
    bindings
        How many the text has already.
    name
        Of the kernel.

    Raises
    ------
    ModelError
        When a number has to be known when the code is compiled.
    """
    if not any(formulas):
        return code
    parts, end = [], 0
    for token, formula in zip(tokens_of(code), formulas, strict=True):
        if formula is None:
            continue
        line = code[code.rfind("\n", 0, token.begin) + 1 : token.begin]
        if _FIXED.search(line):
            raise refused(f"the WGSL of {name} has a fixed number that changes with sizes")
        parts += [code[end : token.begin], _read(token.kind, scalars.index(formula))]
        end = token.end
    body = "".join((*parts, code[end:]))
    block = f"array<vec4<u32>, {-(-len(scalars) // 4)}>"
    line = f"@group(0) @binding({bindings}) var<uniform> {SIZES}: {block};\n"
    enables = re.match(r"(enable [^\n]*\n)*", body)
    place = enables.end() if enables else 0
    return body[:place] + line + body[place:]


def _read(kind: str, place: int) -> str:
    word = f"{SIZES}[{place // 4}].{'xyzw'[place % 4]}"
    return {"u": word, "i": f"i32({word})", "f": f"bitcast<f32>({word})"}[kind]


def _f32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])
