"""Of each planted nest: its module, its program and its formula say the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from offload_mutants import memory_of, ran

from nnjit_studio.compiler.oracle.reference import evaluate, evaluate_with_bound
from nnjit_studio.foreign_wasm.offload.detect import Found, verdicts
from nnjit_studio.foreign_wasm.offload.extract import Extract, extract
from nnjit_studio.foreign_wasm.offload.formula import formulas
from nnjit_studio.wasm_file.module import read

PLANTED = Path(__file__).parent / "planted"
Array = NDArray[Any]


def nests(name: str) -> dict[str, Found]:
    found = verdicts(read((PLANTED / f"{name}.wasm").read_bytes()))
    return {f"{v.name} {v.loop}": v.found for v in found if v.found}


def inputs_of(found: Found, made: Extract, memory: Array) -> dict[str, Array]:
    places = zip(made.inputs, found.lowered.inputs, strict=True)
    inputs = {
        f"in{i}": memory[at // 4 : (at + window.nbytes) // 4].astype(np.float64)
        for i, (at, window) in enumerate(places)
    }
    return inputs | ({"scalars": np.array(made.scalars)} if made.scalars else {})


def test_a_nest_alone_computes_what_its_program_says() -> None:
    alone = 0
    for name, found in nests("planted-o3-simd").items():
        made = extract(found)
        if made is None:
            continue
        alone += 1
        memory = memory_of(made, 1)
        after = ran(made.data, memory)
        assert after is not None
        says = evaluate_with_bound(found.lowered.program, inputs_of(found, made, memory))
        for i, target in enumerate(found.lowered.targets):
            places = np.full((), made.outputs[i], np.int64)
            for step, extent in target.dims:
                places = places[..., None] + step * np.arange(extent)
            value, error = says[f"out{i}"]
            got = after[places.reshape(-1) // 4]
            assert (np.abs(got - value.reshape(-1)) <= 4 * error.reshape(-1)).all(), name
    assert alone > 30


def said(formula: list[Any], inputs: dict[str, Array], at: dict[int, int]) -> float:
    """A formula's value, as the page computes it."""
    name, *rest = formula
    if name == "const":
        return float(np.array(rest[0], np.uint32).view(np.float32))
    if name == "scalar":
        return float(inputs["scalars"][rest[0]])
    if name == "load":
        place = rest[1] + sum(step * at[loop] for loop, step in rest[2:])
        return float(inputs[f"in{rest[0]}"][place])
    if name == "reduce":
        loops, term = rest
        points = np.ndindex(*(extent for _, extent in loops))
        numbers = [loop for loop, _ in loops]
        return sum(said(term, inputs, at | dict(zip(numbers, p, strict=True))) for p in points)
    parts = [said(part, inputs, at) for part in rest]
    done: float = {
        "sum": lambda *x: sum(x), "add": lambda x, y: x + y, "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y, "div": lambda x, y: x / y, "neg": lambda x: -x,
        "abs": abs, "sqrt": math.sqrt, "lt": lambda x, y: x < y, "gt": lambda x, y: x > y,
        "max": max, "min": min, "select": lambda c, x, y: x if c else y,
    }[name](*parts)  # fmt: skip
    return done


@pytest.mark.parametrize("module", ["planted-o3-simd", "planted-o3-fast"])
def test_a_formula_says_what_the_program_does(module: str) -> None:
    rng = np.random.default_rng(5)
    for name, found in nests(module).items():
        program = found.lowered.program
        inputs = {
            b.name: rng.uniform(-1, 1, math.prod(b.shape)).astype(np.float32).astype(np.float64)
            for b in program.buffers
            if b.role == "input"
        }
        says = evaluate(program, inputs)
        for i, formula in enumerate(formulas(found)):
            value = says[f"out{i}"]
            for flat in {0, value.size // 3, value.size - 1}:
                place = np.unravel_index(flat, value.shape) if value.shape else ()
                at = {d: int(x) for d, x in enumerate(place)}
                assert said(formula, inputs, at) == pytest.approx(value[place], abs=1e-9), name
