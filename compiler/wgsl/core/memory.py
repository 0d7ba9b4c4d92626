"""Layout of buffers in GPU memory, and the WGSL that reads and writes their elements.

As in docs/webgpu.md: f32 and i32 as they are; i64 in two words, of which
kernels compute with the low one; f16 two, and i8, u8 and bool four to a word.
A ``plain`` buffer (scratch, workgroup memory) has a word for each element, so
any thread may write any element of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.ir.tensor_ir import Buffer

PACKED = {"f16": 2, "i8": 4, "u8": 4, "bool": 4}
"""Elements in a word, of dtypes that share words."""
VALUE_TYPES = {
    "f32": "f32", "f16": "f32", "bool": "bool",
    "i64": "i32", "i32": "i32", "i8": "i32", "u8": "i32",
}  # fmt: skip
"""What a value of a dtype is in a shader."""
GROUP = 4
"""Elements that a thread reads or writes at once."""
_LANES = "xyzw"


@dataclass(frozen=True)
class Memory:
    """A buffer as a shader sees it."""

    name: str
    """Of the WGSL variable."""
    dtype: str
    plain: bool = False
    """Whether each element has a word of its own."""
    vectors: bool = False
    """Whether it is declared as an array of vec4 (f32 and words only)."""
    single: bool = False
    """Whether it is a number: what else lies in its word is nobody's."""

    @property
    def packed(self) -> int:
        """Elements in a word, 1 where they have words of their own."""
        return 1 if self.plain else PACKED.get(self.dtype, 1)

    @property
    def element(self) -> str:
        """WGSL type of the array's elements."""
        if self.packed > 1:
            return "u32"
        if self.dtype == "i64" and not self.plain:
            return "vec2<i32>"
        scalar = "f32" if self.dtype in ("f32", "f16") else "i32"
        return f"vec4<{scalar}>" if self.vectors else scalar

    @property
    def may_be_vectors(self) -> bool:
        return self.packed == 1 and (self.plain or self.dtype != "i64")

    def load(self, index: str) -> str:
        """The value at an index (an i32 expression, which may occur twice in the result)."""
        if self.packed > 1:
            at = {"f16": "half_at", "i8": "signed_byte_at"}.get(self.dtype, "byte_at")
            shift = self.packed.bit_length() - 1
            value = f"{at}({self.name}[{index} >> {shift}u], {index})"
        elif self.vectors:
            value = f"{self.name}[{index} >> 2u][{index} & 3]"
        else:
            value = f"{self.name}[{index}]"
            if self.dtype == "i64" and not self.plain:
                value += ".x"
        return f"({value} != 0)" if self.dtype == "bool" else value

    def load_group(self, index: str, fresh: str) -> tuple[list[str], list[str]]:
        """Lines that read four elements from ``index`` (a multiple of 4) on, and their values."""
        if self.packed == 2:
            lines = [
                f"let {fresh} = {self.name}[{index} >> 1u];",
                f"let {fresh}b = {self.name}[({index} >> 1u) + 1];",
            ]
            return lines, [f"half_at({fresh}{'b' if i > 1 else ''}, {i})" for i in range(GROUP)]
        lines = [f"let {fresh} = {self.name}[{index} >> 2u];"]
        if self.packed == 4:
            at = "signed_byte_at" if self.dtype == "i8" else "byte_at"
            values = [f"{at}({fresh}, {i})" for i in range(GROUP)]
        else:
            values = [f"{fresh}.{lane}" for lane in _LANES]
        if self.dtype == "bool":
            values = [f"({value} != 0)" for value in values]
        return lines, values

    def store(self, index: str, value: str) -> str:
        """The line that writes one element; only of buffers that are not packed, and of numbers."""
        if self.packed > 1 and self.single:
            bits = f"u32({self._word(value)}) & 0xffu" if self.packed == 4 else _half_bits(value)
            return f"{self.name}[0] = {bits};"
        assert self.packed == 1 and not self.vectors, f"{self.name} is written in groups"
        if self.dtype == "i64" and not self.plain:
            return f"{self.name}[{index}] = vec2<i32>({value}, {value} >> 31u);"
        return f"{self.name}[{index}] = {self._word(value)};"

    def store_group(self, index: str, values: Sequence[str]) -> list[str]:
        """Lines that write four elements from ``index`` (a multiple of 4) on."""
        words = [self._word(value) for value in values]
        if self.packed == 4:
            return [f"{self.name}[{index} >> 2u] = four_bytes({', '.join(words)});"]
        if self.packed == 2:
            low, high = (
                f"({_half_bits(a)} | ({_half_bits(b)} << 16u))" for a, b in (values[:2], values[2:])
            )
            return [
                f"{self.name}[{index} >> 1u] = {low};",
                f"{self.name}[({index} >> 1u) + 1] = {high};",
            ]
        return [f"{self.name}[{index} >> 2u] = {self.element}({', '.join(words)});"]

    def _word(self, value: str) -> str:
        if self.dtype == "bool":
            return f"select(0, 1, {value})"
        return Rounded(value) if self.dtype == "f16" and self.plain else value


class Rounded(str):
    """The WGSL of a value that is rounded to a half; ``exact`` is that of the value before."""

    exact: str

    def __new__(cls, exact: str) -> Rounded:
        made = super().__new__(cls, f"round_f16({exact})")
        made.exact = exact
        return made


def _half_bits(value: str) -> str:
    """The bits of a half; they round by themselves."""
    return f"half_bits({value.exact if isinstance(value, Rounded) else value})"


def memories(
    buffers: Iterable[Buffer], plain: Iterable[str], names: dict[str, str]
) -> dict[str, Memory]:
    """The memory of each buffer under the name that ``names`` gives it."""
    wide = set(plain)
    return {
        b.name: Memory(names[b.name], b.dtype, b.name in wide, single=not b.shape) for b in buffers
    }
