"""A nest as a module of its own: the same instructions, on memory that is laid out for it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from nnjit_studio.foreign_wasm.offload.dependence import reach
from nnjit_studio.foreign_wasm.offload.detect import Found
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    WRAP,
    Atom,
    Const,
    Lanes,
    Linear,
    Load,
    Op,
    Reduce,
    Scalar,
    Sum,
    Value,
    as_integer,
)
from nnjit_studio.foreign_wasm.offload.lower import ELEMENT
from nnjit_studio.foreign_wasm.offload.nest import RESULT
from nnjit_studio.wasm_file import instructions as wasm
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.sections import function_type, module_of, sized, text

ENTRY = "run"
PAGE = 65536
ALIGNMENT = 256
MOST_BYTES = 1 << 30


@dataclass(frozen=True)
class Extract:
    """A module that exports ``run`` and ``memory``.

    Attributes
    ----------
    regions
        Offset and floats of what the nest reads and writes, sums of locals last.
    inputs, outputs
        Where each window and each output of the nest lies, sums of locals too.
    scalars
        The fixed values that it was given.
    """

    data: bytes
    regions: tuple[tuple[int, int], ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    scalars: tuple[float, ...]


def extract(found: Found) -> Extract | None:
    """The module of a nest, or None where its addresses cannot be chosen freely."""
    if any(_is_computed(found.lifted.before[x]) for x in found.lifted.written):
        return None  # what the function loaded before the nest would be missing
    spans = _spans(found)
    values: dict[Atom, int] = {}
    fixed = [high for terms, _, high in spans if not terms.terms]
    cursor = -(-max([PAGE, *fixed]) // ALIGNMENT) * ALIGNMENT
    for terms, low, high in spans:
        free = [(atom, c) for atom, c in terms.terms if atom not in values]
        if terms.terms and not free:
            return None
        if not free:
            continue
        for atom, _ in free[1:]:
            values[atom] = 0
        atom, c = free[0]
        if c != 1:
            return None
        known = sum(values.get(a, 0) * k for a, k in terms.terms if a != atom)
        values[atom] = cursor - low - known
        cursor += -(-(high - low) // ALIGNMENT) * ALIGNMENT
    if cursor > MOST_BYTES:
        return None
    regions = _regions(spans, values)
    if any(not 0 <= offset <= cursor - ELEMENT * count for offset, count in regions):
        return None
    results = len(found.nest.results)
    if results:
        regions.append((cursor, results))
    module = _module(_function(found, values, cursor), cursor // PAGE + 2)
    values[RESULT] = cursor
    lowered = found.lowered
    return Extract(
        module,
        tuple(regions),
        tuple(_at(window.base, values) for window in lowered.inputs),
        tuple(_at(target.base, values) for target in lowered.targets),
        tuple(_scalar(atom) for atom in lowered.scalars),
    )


def _is_computed(value: Value) -> bool:
    """Whether a local was, before the nest, more than a constant or a fixed value."""
    lanes = value.lanes if isinstance(value, Lanes) else (value,)
    return any(isinstance(lane, (Load, Op, Sum, Reduce)) for lane in lanes)


def _spans(found: Found) -> list[tuple[Linear, int, int]]:
    """The bases of a nest, with the range of constants that are added to each."""
    trips: dict[Atom, int] = {}
    spans: dict[Linear, tuple[int, int]] = {}
    pairs = [(w.base, w.base.constant, w.base.constant + w.nbytes) for w in found.lowered.inputs]
    for output in found.nest.outputs:
        trips |= dict(output.loops)
        if not output.address.of_atom(RESULT):
            pairs.append((output.address, *reach(output.address, trips)))
    for base, low, high in pairs:
        terms = base.of_kind("entry")
        known = spans.get(terms, (low, high))
        spans[terms] = min(low, known[0]), max(high, known[1])
    return [(terms, low, high) for terms, (low, high) in spans.items()]


def _regions(
    spans: list[tuple[Linear, int, int]], values: Mapping[Atom, int]
) -> list[tuple[int, int]]:
    regions = []
    for terms, low, high in spans:
        regions.append((_at(terms, values) + low, (high - low) // ELEMENT))
    return regions


def _at(place: Linear, values: Mapping[Atom, int]) -> int:
    return place.constant + sum(values.get(atom, 0) * c for atom, c in place.terms)


def _scalar(atom: Atom) -> float:
    """A value for a fixed float32 of the function."""
    return 0.25 + 0.125 * (atom.number % 8)


def _function(found: Found, values: Mapping[Atom, int], results: int) -> bytes:
    """The body: locals as they were before the nest, the nest, its sums to memory."""
    code, nest = found.code, found.nest
    out = [leb.unsigned(len(code.types)), *(b"\1" + bytes([t]) for t in code.types)]
    for x, value in enumerate(found.lifted.before):
        constant = _constant(code.types[x], value, values)
        if constant:
            out += [constant, wasm.code("local.set", x)]
    begin, end = code.instructions[nest.begin].start, code.instructions[nest.end].end
    out.append(found.body[begin:end])
    for i, (x, lane) in enumerate(nest.results):
        out += [wasm.code("i32.const", results + ELEMENT * i), wasm.code("local.get", x)]
        if code.types[x] == 0x7B:
            out.append(wasm.code("f32x4.extract_lane", lane))
        out.append(wasm.code("f32.store", 2, 0, 0))
    return b"".join(out) + b"\x0b"


def _constant(type_: int, value: Value, values: Mapping[Atom, int]) -> bytes:
    if isinstance(value, Lanes):
        return b"\xfd\x0c" + b"".join(_bits(lane, values) for lane in value.lanes)
    if type_ == 0x7F and isinstance(value, Linear):
        number = _at(value, values)
        return wasm.code("i32.const", (number + WRAP // 2) % WRAP - WRAP // 2)
    if type_ == 0x7D and isinstance(value, (Const, Scalar)):
        return b"\x43" + _bits(value, values)
    return b""


def _bits(value: Value, values: Mapping[Atom, int]) -> bytes:
    if isinstance(value, Const):
        return struct.pack("<f", value.value)
    if isinstance(value, Scalar) and value.atom not in values:
        return struct.pack("<f", _scalar(value.atom))
    return struct.pack("<I", _at(as_integer(value) or Linear(), values) % WRAP)


def _module(body: bytes, pages: int) -> bytes:
    return module_of(
        {
            "type": [function_type(b"", b"")],
            "function": [b"\0"],
            "memory": [b"\0" + leb.unsigned(pages)],
            "export": [text(ENTRY) + b"\0\0", text("memory") + b"\2\0"],
            "code": [sized(body)],
        }
    )
