"""LEB128, the variable-length integers of the Wasm binary format (core spec, 5.2.2)."""

from __future__ import annotations


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = tuple(_unsigned(value) for value in range(1 << 14))


def unsigned(value: int) -> bytes:
    """Bytes of an integer >= 0."""
    return _SMALL[value] if value < len(_SMALL) else _unsigned(value)


def signed(value: int) -> bytes:
    """Bytes of an integer of either sign."""
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if value == (-1 if byte & 0x40 else 0):
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)
