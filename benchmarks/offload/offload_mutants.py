"""Mutants of loops: nests with one instruction changed, no longer what they look like.

Two questions. Is the detector still right of what it takes (the mutant is lifted anew, and its
program is compared with Wasmtime's run of it)? And does the guard in the page find a kernel that is
not the loop's (the mutant keeps the plan of the loop that it was made of)?
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import wasmtime
from numpy.typing import NDArray

from nnjit_studio.compiler.oracle.reference import evaluate_with_bound
from nnjit_studio.foreign_wasm.offload.detect import Found, of_function
from nnjit_studio.foreign_wasm.offload.extract import ENTRY, Extract, extract
from nnjit_studio.foreign_wasm.offload.lower import ELEMENT
from nnjit_studio.wasm_file.edit import replace
from nnjit_studio.wasm_file.instructions import CODES, NAMES, Instruction, decode, encode
from nnjit_studio.wasm_file.module import Module, read

FUEL = 50_000_000
SWAPS = (
    ("f32.add", "f32.sub"), ("f32.mul", "f32.add"), ("f32.add", "f32.max"), ("f32.sub", "f32.div"),
    ("f32.lt", "f32.le"), ("f32.gt", "f32.lt"), ("f32.sqrt", "f32.abs"), ("f32.mul", "f32.min"),
    ("i32.ne", "i32.lt_u"), ("i32.add", "i32.sub"), ("i32.lt_u", "i32.le_u"), ("i32.or", "i32.add"),
    ("i32.shl", "i32.mul"), ("i32.ne", "i32.gt_s"), ("i32.or", "i32.xor"),
)  # fmt: skip
"""Instructions that take each other's place; those on vectors likewise."""
_SIMD = (("add", "sub"), ("mul", "add"), ("add", "max"), ("sub", "div"), ("mul", "min"))
Array = NDArray[Any]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Mutant:
    """A changed module of one nest, as long as the original; ``what`` was done, in words."""

    data: bytes
    what: str


def mutants(original: Extract, count: int, seed: int) -> Iterator[Mutant]:
    """Valid modules that differ from a nest's in one instruction; fewer where there are none."""
    module = read(original.data)
    (index,) = module.defined
    body = module.body(index)
    instructions = decode(body).instructions
    first = next(i for i, x in enumerate(instructions) if NAMES[x.opcode] == "loop")
    last = max(i for i, x in enumerate(instructions[:-1]) if NAMES[x.opcode] == "end")
    ways = [
        (at, new) for at in range(first, last) for new in _changes(instructions[at], instructions)
    ]
    random.Random(seed).shuffle(ways)
    engine = wasmtime.Engine()
    made = 0
    for at, new in ways:
        old = instructions[at]
        if made == count or len(new) != old.end - old.start:
            continue
        changed = body[: old.start] + new + body[old.end :]
        data = replace(module, {index: changed})
        try:
            wasmtime.Module.validate(engine, data)
        except wasmtime.WasmtimeError:
            continue
        made += 1
        yield Mutant(data, f"{NAMES[old.opcode]} {old.immediates} -> {new.hex()}")


def _changes(old: Instruction, around: Sequence[Instruction]) -> Iterator[bytes]:
    name, given = NAMES[old.opcode], old.immediates
    pairs = [*SWAPS, *((f"f32x4.{a}", f"f32x4.{b}") for a, b in _SIMD)]
    for a, b in pairs:
        if name in (a, b):
            yield encode(CODES[b if name == a else a])
    if name == "i32.const":
        for value in (given[0] + 4, given[0] - 4, given[0] * 2, given[0] + 1, -given[0]):
            yield encode(old.opcode, (value,))
    elif name in ("f32.load", "f32.store", "v128.load", "v128.store"):
        align, offset, memory = given
        for other in (offset + 4, offset + 8, abs(offset - 4)):
            yield encode(old.opcode, (align, other, memory))
    elif name.startswith("local."):
        others = {x.immediates[0] for x in around if NAMES[x.opcode].startswith("local.")}
        for other in sorted(others - {given[0]}):
            yield encode(old.opcode, (other,))
        for word in ("get", "set", "tee"):
            yield encode(CODES[f"local.{word}"], given)
    elif name == "i8x16.shuffle":
        yield encode(old.opcode, (*given[4:], *given[:4]))


def lifted(data: bytes) -> Found | None:
    """What the detector takes of a module of one nest: the outermost loop, or nothing."""
    module = read(data)
    found = [v.found for v in of_function(module, module.defined[0]) if v.found]
    return found[0] if len(found) == 1 else None


def disagreement(data: bytes, found: Found, seed: int) -> str:
    """How a nest's program and Wasmtime's run of the module differ on random memory; or nothing.

    The module is laid out anew for the nest as it was lifted. A run that traps or does not end
    says nothing: in a page, addresses out of bounds are found before the GPU runs.
    """
    made = extract(found)
    if made is None:
        return ""
    before = memory_of(made, seed)
    after = ran(made.data, before)
    if after is None:
        return ""
    relocated = lifted(made.data)
    if relocated is None:
        return "its own module is not recognised"
    old, new = before.view(np.uint8), after.view(np.uint8)
    untouched = np.ones(old.size, np.bool_)
    for places, value, slack in expected(relocated, before):
        bytes_ = places[:, None] + np.arange(ELEMENT)  # a mutant's step may be no whole element
        untouched[bytes_] = False
        got = new[bytes_].reshape(-1).view(np.float32)
        differ = ~(np.abs(got - value) <= slack) & ~(np.isnan(got) & np.isnan(value))
        if differ.any():
            i = int(np.flatnonzero(differ)[0])
            return f"{got[i]} is not {value[i]} at {places[i]}"
    elsewhere = np.flatnonzero(untouched & (old != new))
    return f"it also writes byte {elsewhere[0]}" if elsewhere.size else ""


def memory_of(made: Extract, seed: int) -> Array:
    """Memory of a module's size with random floats in its regions."""
    memory = np.zeros(read(made.data).memories[0].minimum * 65536 // ELEMENT, np.float32)
    source = np.random.default_rng(seed)
    for offset, count in made.regions:
        memory[offset // ELEMENT : offset // ELEMENT + count] = source.uniform(-1, 1, count)
    return memory


def ran(data: bytes, memory: Array) -> Array | None:
    """Memory after ``run``; None where it traps, or runs for too long."""
    config = wasmtime.Config()
    config.consume_fuel = True
    store = wasmtime.Store(wasmtime.Engine(config))
    store.set_fuel(FUEL)
    instance = wasmtime.Instance(store, wasmtime.Module(store.engine, data), [])
    exports = instance.exports(store)
    inner = exports["memory"]
    assert isinstance(inner, wasmtime.Memory)
    inner.write(store, memory.tobytes())
    run = exports[ENTRY]
    assert isinstance(run, wasmtime.Func)
    try:
        run(store)
    except (wasmtime.Trap, wasmtime.WasmtimeError):
        return None
    left: Array = np.frombuffer(inner.read(store), np.float32).copy()
    return left


def expected(found: Found, memory: Array) -> Iterator[tuple[Places, Array, Array]]:
    """Of each output the address of each element, its value by the nest's program in float64, and
    what rounding may change.

    Every base is a constant: the nest is that of an extracted module.
    """
    lowered = found.lowered
    inputs = {}
    for i, window in enumerate(lowered.inputs):
        at = window.base.constant // ELEMENT
        inputs[f"in{i}"] = memory[at : at + window.nbytes // ELEMENT].astype(np.float64)
    found_values = evaluate_with_bound(lowered.program, inputs)
    sums = _results(found)
    for i, target in enumerate(lowered.targets):
        places = np.zeros((), np.int64) + (sums if target.is_result else 0)
        for step, extent in target.dims:
            places = places[..., None] + step * np.arange(extent)
        value, error = found_values[f"out{i}"]
        addresses = (places + target.base.constant).reshape(-1)
        yield addresses, value.reshape(-1), 4 * error.reshape(-1)


def _results(found: Found) -> int:
    """Where an extracted module puts the sums that stay in locals."""
    made = decode(found.body).instructions
    stores = [x for x in made if NAMES[x.opcode] == "f32.store" and x.start > _end(found)]
    if not stores:
        return 0
    first = next(i for i in made if i.start >= _end(found) and NAMES[i.opcode] == "i32.const")
    return int(first.immediates[0])


def _end(found: Found) -> int:
    return found.code.instructions[found.nest.end].end


def originals(module: Module) -> list[Extract]:
    """The modules of all nests that stand alone."""
    made = [extract(v.found) for i in module.defined for v in of_function(module, i) if v.found]
    return [m for m in made if m is not None]
