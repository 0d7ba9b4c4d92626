"""A module whose nests ask a table before they run; as long as nobody sets it they run as before.

Before a nest stands a call through the table with the addresses and fixed values of the nest. Its
answer is 0: run the loop, 1: the results are in memory, 2: run the loop and call again behind it.
Nothing is imported and no index changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.foreign_wasm.offload.detect import Found
from nnjit_studio.foreign_wasm.offload.holders import Held, holders
from nnjit_studio.foreign_wasm.offload.lift.terms import Atom, Linear
from nnjit_studio.foreign_wasm.offload.nest import RESULT
from nnjit_studio.wasm_file import instructions as wasm
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.append import appended, table_count
from nnjit_studio.wasm_file.edit import replace
from nnjit_studio.wasm_file.module import Module, read
from nnjit_studio.wasm_file.sections import function_type, text

TABLE = "nnjit_offload"
"""The name that the table is exported by."""

RESULT_SLOT = 0
I32, F32 = b"\x7f", b"\x7d"
_START = b"\x41\x00\x0b\x00"
"""Of an element segment: offset 0, and that its members are functions."""
_RUN = bytes([0x41, 0, 0x0B])
"""The end of a default's code: 0, run the loop."""


@dataclass(frozen=True)
class Slots:
    """A nest's places in the table."""

    before: int
    after: int


def slots(number: int) -> Slots:
    return Slots(2 * number + 1, 2 * number + 2)


def rewrite(module: Module, nests: Sequence[tuple[int, Found]]) -> bytes:
    """The module with a call around each nest.

    Parameters
    ----------
    nests
        The function of each, and what was found; their numbers are their places.
    """
    types = _Types(len(module.types))
    result = types.of(I32, F32)
    table = table_count(module)
    defaults: list[tuple[int, bytes]] = [(result, b"\0" + bytes([0x43]) + bytes(4) + b"\x0b")]
    by_function: dict[int, list[tuple[int, Found]]] = {}
    for number, (function, found) in enumerate(nests):
        by_function.setdefault(function, []).append((number, found))
        before, after = hook_types(types, found)
        defaults += [(before, b"\0" + _RUN), (after, b"\0\x0b")]
    calls = _Calls(table, types, result)
    bodies = {f: _body(module.body(f), members, calls) for f, members in by_function.items()}
    first = module.imported_functions + len(module.bodies)
    members = b"".join(leb.unsigned(first + i) for i in range(len(defaults)))
    size = leb.unsigned(len(defaults))
    entries = {
        "type": types.made,
        "table": [b"\x70\x01" + size + size],
        "export": [text(TABLE) + b"\x01" + leb.unsigned(table)],
        "element": [b"\x02" + leb.unsigned(table) + _START + size + members],
    }
    return replace(read(appended(module, entries)), bodies, defaults)


class _Types:
    """Function types that are appended."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._known: dict[bytes, int] = {}

    def of(self, params: bytes, results: bytes) -> int:
        code = function_type(params, results)
        return self._first + self._known.setdefault(code, len(self._known))

    @property
    def made(self) -> list[bytes]:
        return list(self._known)


def hook_types(types: _Types, found: Found) -> tuple[int, int]:
    """The types of the calls before and behind a nest."""
    before, after = parameters(found)
    return types.of(before, I32), types.of(after, b"")


def parameters(found: Found) -> tuple[bytes, bytes]:
    """Types of what the calls before and behind a nest pass."""
    bases = len(found.lowered.inputs) + sum(not t.is_result for t in found.lowered.targets)
    return I32 * bases + F32 * len(found.lowered.scalars), F32 * len(found.nest.results)


@dataclass(frozen=True)
class _Calls:
    table: int
    types: _Types
    result: int

    def slot(self, number: int, type_: int) -> bytes:
        return wasm.code("i32.const", number) + wasm.code("call_indirect", type_, self.table)


def _body(body: bytes, members: Sequence[tuple[int, Found]], calls: _Calls) -> bytes:
    """A function's body with the calls around its nests, and one more local."""
    code = members[0][1].code
    mode = len(code.types)
    first = code.instructions[0].start
    groups = (*code.body.groups, (1, I32))
    out = [leb.unsigned(len(groups)), *(leb.unsigned(n) + t for n, t in groups)]
    at = first
    for number, found in sorted(members, key=lambda m: m[1].nest.begin):
        begin = code.instructions[found.nest.begin].start
        end = code.instructions[found.nest.end].end
        out += [body[at:begin], _around(body[begin:end], number, found, mode, calls)]
        at = end
    return b"".join((*out, body[at:]))


def _around(loop: bytes, number: int, found: Found, mode: int, calls: _Calls) -> bytes:
    nest, lowered = found.nest, found.lowered
    held = holders(found.lifted)
    own = slots(number)
    before, after = hook_types(calls.types, found)
    bases = [w.base for w in lowered.inputs]
    bases += [t.base for t in lowered.targets if not t.is_result]
    asked = b"".join(
        (
            *(_linear(base, held) for base in bases),
            *(_get(held[atom], F32) for atom in lowered.scalars),
            calls.slot(own.before, before),
        )
    )
    finals = [_linear(value, held) for value in nest.finals.values()]
    finals += [wasm.code("local.set", x) for x in list(nest.finals)[::-1]]
    results = [_result(i, x, lane, found, calls) for i, (x, lane) in enumerate(nest.results)]
    told = [
        _get(Held(x, lane=lane if _is_vector(found, x) else -1), F32) for x, lane in nest.results
    ]
    return b"".join(
        (
            asked,
            wasm.code("local.tee", mode),
            wasm.code("i32.const", 1),
            b"\x46\x04\x40",  # i32.eq, if
            *finals,
            *results,
            b"\x05",  # else
            loop,
            wasm.code("local.get", mode),
            wasm.code("i32.const", 2),
            b"\x46\x04\x40",
            *told,
            calls.slot(own.after, after),
            b"\x0b\x0b",
        )
    )


def _is_vector(found: Found, x: int) -> bool:
    return found.code.types[x] == 0x7B


def _result(i: int, x: int, lane: int, found: Found, calls: _Calls) -> bytes:
    """Puts a sum into its local."""
    value = wasm.code("i32.const", i) + calls.slot(RESULT_SLOT, calls.result)
    if not _is_vector(found, x):
        return value + wasm.code("local.set", x)
    into = wasm.code("f32x4.replace_lane", lane)
    return wasm.code("local.get", x) + value + into + wasm.code("local.set", x)


def _linear(value: Linear, held: dict[Atom, Held]) -> bytes:
    """Code for an affine form of what locals hold."""
    out = [wasm.code("i32.const", value.constant)]
    for atom, c in value.terms:
        if atom != RESULT:
            out += [_get(held[atom], I32), wasm.code("i32.const", -held[atom].constant), b"\x6a"]
            out += [wasm.code("i32.const", c), b"\x6c\x6a"]
    return b"".join(out)


def _get(where: Held, type_: bytes) -> bytes:
    if where.lane < 0:
        return wasm.code("local.get", where.local)
    name = "f32x4.extract_lane" if type_ == F32 else "i32x4.extract_lane"
    return wasm.code("local.get", where.local) + wasm.code(
        name,
        where.lane,
    )
