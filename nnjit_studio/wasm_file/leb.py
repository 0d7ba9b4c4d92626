"""Numbers of the Wasm binary format: LEB128 (core specification, section 5.2.2)."""

from __future__ import annotations

from nnjit_studio.errors import WasmError

MAX_BITS = 70
"""Ten bytes: what the longest encoding of a 64-bit number takes."""


def unsigned(value: int, width: int = 0) -> bytes:
    """Encode a number >= 0, padded with empty groups to at least ``width`` bytes."""
    return _SMALL[value] if value < len(_SMALL) and not width else _unsigned(value, width)


def _unsigned(value: int, width: int = 0) -> bytes:
    out = bytearray()
    while value >= 0x80 or len(out) + 1 < width:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = (
    *(bytes((low,)) for low in range(1 << 7)),
    *(bytes((low | 0x80, high)) for high in range(1, 1 << 7) for low in range(1 << 7)),
)
"""Encodings of one and of two bytes, by their values."""


def signed(value: int) -> bytes:
    """Encode a number in as few bytes as possible."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def read_unsigned(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and the offset behind it.

    Raises
    ------
    WasmError
        When the data ends within the number, or it has more than ten bytes.
    """
    value = shift = 0
    while shift < MAX_BITS:
        try:
            byte = data[at]
        except IndexError:
            raise WasmError("The module ends too early.") from None
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise WasmError(f"The number at byte {at} is too long.")


def read_signed(data: bytes, at: int) -> tuple[int, int]:
    """Like :func:`read_unsigned`, in two's complement."""
    start = at
    value, at = read_unsigned(data, at)
    bits = 7 * (at - start)
    return (value - (1 << bits) if data[at - 1] & 0x40 else value), at
