"""Matrices in words of eight 4-bit or four 8-bit values, and ways to decode them to floats.

Put below an exponent, the bits of q are a float that differs from q by that
exponent's power of two, exactly; it is subtracted together with the zero point.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.wgsl.core.document import PACKED, Shader

WORD = 8
"""Values that are decoded together, neighbours in k: of 4 bits a word, of 8 bits two."""
COLUMNS = 4
"""Words that are decoded together, of neighbouring columns: a ``vec4<u32>``."""
DECODINGS = ("bits", "half", "bytes")
"""``bits``: one value at a time below the exponent of 16.0. ``half``: two at a time so in f16,
widened by ``unpack2x16float``. ``bytes``: spread over bytes and converted. All are exact."""
F16 = "f16"
"""Two at a time, and multiplied in f16: for devices with ``shader-f16``; errors near 5e-4."""
_OFFSETS = {"bits": 1, "half": 1, "bytes": 0, F16: 64}
"""What a decoded value is above q, by the number of values that q may have."""
REQUIRES = {"bytes": PACKED, F16: "shader-f16"}
"""The feature that a decoding needs, where it needs one."""


@dataclass(frozen=True)
class BlockMatrix:
    """A K x N matrix; words lie in rows of ``N``, a word neighbours in k."""

    k: int
    n: int
    words: str = "words"
    scales: str = "scales"
    zeros: str = ""
    """Name of the buffer of zero points, u8, laid out as the scales; or empty."""
    block: int = 32
    """Values along k that share a scale."""
    half_scales: bool = False
    """Whether the scales are f16, else f32."""
    zero: float = 8.0
    """The zero point where ``zeros`` is empty."""
    stride: int = 0
    """Elements from one row of scales to the next; 0 for ``n``."""
    unit: float = 1.0
    """What stored scales are multiplied by."""
    batches: int = 1
    """Products, each with a range of the columns of its own."""
    bits: int = 4
    """Of a value; 4 or 8."""

    @property
    def rows(self) -> int:
        """Rows of eight values."""
        return self.k // WORD

    @property
    def parts(self) -> int:
        """Words of eight values."""
        return self.bits * WORD // 32

    @property
    def per_word(self) -> int:
        """Values in a word."""
        return WORD // self.parts

    @property
    def columns(self) -> int:
        """Vectors of four words in a row."""
        return self.n // COLUMNS

    @property
    def across(self) -> int:
        """Vectors from one row of scales to the next."""
        return (self.stride or self.n) // COLUMNS

    @property
    def nbytes(self) -> int:
        """Of words and scales: what a product must read at least."""
        return self.k * self.n * self.bits // 8 + self.k // self.block * self.n * (
            2 if self.half_scales else 4
        )

    @property
    def scale_type(self) -> str:
        """WGSL's type of the scales of four columns, as they are stored."""
        return "vec2<u32>" if self.half_scales else "vec4<f32>"

    def bind(self, shader: Shader) -> None:
        """Let ``words``, ``scales`` and ``zeros`` stand for vectors of four columns."""
        groups = self.k // self.block * self.across
        shader.bind(
            self.words, "words", f"array<vec4<u32>, {self.rows * self.parts * self.columns}>"
        )
        shader.bind(self.scales, "scales", f"array<{self.scale_type}, {groups}>")
        if self.zeros:
            shader.bind(self.zeros, "zeros", f"array<u32, {groups}>")

    def stored(self, loaded: str) -> str:
        """Four stored scales as they were loaded, as floats."""
        if not self.half_scales:
            return loaded
        return f"vec4<f32>(unpack2x16float({loaded}.x), unpack2x16float({loaded}.y))"

    def scale(self, loaded: str) -> str:
        """Four scales."""
        stored = self.stored(loaded)
        return stored if self.unit == 1.0 else f"{stored} * {self.unit}"

    def offset(self, stored: str, decoding: str) -> str:
        """What four decoded values are above those that they stand for."""
        decoded = float(_OFFSETS[decoding] << self.bits)
        if not self.zeros:
            return f"vec4<f32>({decoded + self.zero})"
        zeros = ", ".join(f"({stored} >> {8 * c}u) & 255u" for c in range(COLUMNS))
        return f"vec4<f32>(vec4<u32>({zeros})) + {decoded}"


Decoded = tuple[list[str], list[tuple[str, int]]]
"""Lines that come first; then ``vec4<f32>`` of the four columns, with the step of k of each."""


def decoded(decoding: str, word: str, name: str, bits: int = 4) -> Decoded:
    """The steps of four words; ``name`` begins the names of what is made."""
    return {"bits": _bits, "half": _half, "bytes": _bytes}[decoding](word, name, bits)


def halves(word: str, k: int) -> str:
    """Steps ``k`` and ``k + 4`` of four words as pairs of f16 in ``vec4<u32>``, 1024 above q."""
    return f"({_moved(word, -4 * k)} & vec4<u32>(0x000F000Fu)) | vec4<u32>(0x64006400u)"


def _moved(word: str, left: int) -> str:
    if left == 0:
        return word
    sign, by = ("<<", left) if left > 0 else (">>", -left)
    return f"({word} {sign} vec4<u32>({by}u))"


def _bits(word: str, name: str, bits: int) -> Decoded:
    found = []
    mask, exponent = {4: (0x780000, 0x41800000), 8: (0x7F8000, 0x43800000)}[bits]
    for k in range(32 // bits):
        moved = f"{_moved(word, 23 - bits - bits * k)} & vec4<u32>(0x{mask:X}u)"
        found.append((f"bitcast<vec4<f32>>(({moved}) | vec4<u32>(0x{exponent:X}u))", k))
    return [], found


def _half(word: str, name: str, bits: int) -> Decoded:
    lines, found = [], []
    mask, exponent = {4: ("03C0", "4C00"), 8: ("03FC", "5C00")}[bits]
    count = 16 // bits
    for k in range(count):
        moved = _moved(word, 10 - bits - bits * k)
        pairs = f"{name}h{k}"
        made = f"({moved} & vec4<u32>(0x{mask * 2}u)) | vec4<u32>(0x{exponent * 2}u)"
        lines.append(f"let {pairs} = {made};")
        lines += [f"let {pairs}{c} = unpack2x16float({pairs}.{c});" for c in "xyzw"]
        for half, part in enumerate("xy"):
            each = ", ".join(f"{pairs}{c}.{part}" for c in "xyzw")
            found.append((f"vec4<f32>({each})", k + count * half))
    return lines, found


def _bytes(word: str, name: str, bits: int) -> Decoded:
    lines, found = [], []
    for odd in range(8 // bits):
        spread = f"{name}b{odd}"
        apart = " & vec4<u32>(0x0F0F0F0Fu)" if bits == 4 else ""
        lines.append(f"let {spread} = {_moved(word, -4 * odd)}{apart};")
        lines += [f"let {spread}{c} = vec4<f32>(unpack4xU8({spread}.{c}));" for c in "xyzw"]
        for at, part in enumerate("xyzw"):
            each = ", ".join(f"{spread}{c}.{part}" for c in "xyzw")
            found.append((f"vec4<f32>({each})", 8 // bits * at + odd))
    return lines, found
