"""Parts that every section of a module is made of (core spec, 5.1.3 and 5.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnjit_studio.wasm_file.leb import unsigned
from nnjit_studio.wasm_file.module import MAGIC, SECTIONS


def number_of(name: str) -> int:
    return SECTIONS.index(name)


def module_of(entries: Mapping[str, Sequence[bytes]]) -> bytes:
    """A whole module with these entries of sections, which stand in the order of the format."""
    parts = (section(number_of(name), vector(items)) for name, items in entries.items())
    return MAGIC + b"".join(parts)


def sized(payload: bytes) -> bytes:
    return unsigned(len(payload)) + payload


def section(number: int, payload: bytes) -> bytes:
    return bytes((number,)) + sized(payload)


def vector(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def text(value: str) -> bytes:
    return sized(value.encode())


def function_type(params: Sequence[int], results: Sequence[int]) -> bytes:
    """A function type (core spec, 5.3.6)."""
    return b"\x60" + sized(bytes(params)) + sized(bytes(results))
