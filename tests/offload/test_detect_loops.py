"""The planted loops are found by their patterns, the others refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import wasmtime

from nnjit_studio.foreign_wasm.offload.detect import Verdict, verdicts
from nnjit_studio.foreign_wasm.offload.extract import extract
from nnjit_studio.foreign_wasm.offload.lift.refusal import REASONS
from nnjit_studio.foreign_wasm.offload.plan import kernel_of
from nnjit_studio.foreign_wasm.offload.rewrite import TABLE, rewrite
from nnjit_studio.wasm_file.module import read

PLANTED = sorted((Path(__file__).parent / "planted").glob("*.wasm"))
PATTERNS = ("elementwise", "dot", "gemv", "reduction", "matmul")
REASON_OF = {
    "no_branch_sparse": "branch",
    "no_branch_search": "branch",
    "no_call": "call",
    "no_dynamic_trip_count_add": "dynamic-trip-count",
    "no_dynamic_trip_count_dot": "dynamic-trip-count",
    "no_f64_add": "f64",
    "no_f64_dot": "f64",
    "no_aliasing_shift": "aliasing",
    "no_recurrence_scan": "recurrence",
    "no_recurrence_filter": "recurrence",
    "no_integer_add": "integer",
    "no_index_gather": "index",
    "no_copy": "copy",
}
"""Of the modules without vectors; LLVM makes other loops of some where it has them."""


def by_function(path: Path) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts(read(path.read_bytes())):
        found.setdefault(verdict.name, []).append(verdict)
    return found


@pytest.mark.parametrize("path", PLANTED, ids=lambda p: p.stem)
def test_planted_loops(path: Path) -> None:
    functions = by_function(path)
    wanted = {name: name.split("_")[0] for name in functions if name.startswith(PATTERNS)}
    assert len(wanted) == 40
    got = {
        name: {v.pattern.replace("-", "") for v in functions[name] if v.pattern} for name in wanted
    }
    right = [name for name, pattern in wanted.items() if got[name] == {pattern}]
    assert len(right) >= 0.95 * len(wanted), sorted(wanted.keys() - set(right))
    wrong = {n for n in wanted if got[n] - {wanted[n]}}
    wrong |= {n for n, vs in functions.items() if n.startswith("no_") and any(v.found for v in vs)}
    assert not wrong
    assert all(v.reason in REASONS for vs in functions.values() for v in vs if not v.found)


@pytest.mark.parametrize("name", ["planted-o2", "planted-o3"])
def test_reasons_by_name(name: str) -> None:
    functions = by_function(Path(__file__).parent / "planted" / f"{name}.wasm")
    told = {n: {v.reason for v in functions[n]} for n in REASON_OF}
    assert told == {n: {reason} for n, reason in REASON_OF.items()}


def test_a_rewritten_module_is_valid_and_computes_the_same() -> None:
    module = read(PLANTED[0].read_bytes())
    nests = [(v.function, v.found) for v in verdicts(module) if v.found]
    data = rewrite(module, nests)
    engine = wasmtime.Engine()
    wasmtime.Module.validate(engine, data)
    again = read(data)
    assert [e.name for e in again.exports][-1] == TABLE
    results = []
    for each in (module.data, data):
        store = wasmtime.Store(engine)
        given = wasmtime.Func(
            store, wasmtime.FuncType([wasmtime.ValType.f32()], [wasmtime.ValType.f32()]), abs
        )
        exports = wasmtime.Instance(store, wasmtime.Module(engine, each), [given]).exports(store)
        memory = exports["memory"]
        assert isinstance(memory, wasmtime.Memory)
        memory.write(store, bytes(range(64)) * 1024, 65536)
        for function, args in (
            ("gemv_add", (65536, 131072, 200000)),
            ("dot_plain", (65536, 70000)),
        ):
            run = exports[function]
            assert isinstance(run, wasmtime.Func)
            results.append(run(store, *args))
        results.append(bytes(memory.read(store)))
    assert results[:3] == results[3:]


def test_kernels_are_cached_by_fingerprint_and_nests_stand_alone() -> None:
    kernels: dict[str, bytes] = {}
    seen = 0
    for verdict in (
        by_function(PLANTED[0])["matmul_naive"] + by_function(PLANTED[1])["matmul_naive"]
    ):
        if verdict.found:
            seen += 1
            assert kernel_of(verdict.found.lowered, kernels)
            made = extract(verdict.found)
            assert made is not None
            wasmtime.Module.validate(wasmtime.Engine(), made.data)
    assert seen == 2
    assert len(kernels) == 1
