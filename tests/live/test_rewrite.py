"""A rewritten module computes what it did, and calls what stands in its table."""

from __future__ import annotations

import numpy as np
import pytest
import wasmtime
from kernel_harness import engine
from sgemm_images import FLOATS, Case
from tiny_runtime import ADD, ROWS, WALK, ZERO, runtime

from nnjit_studio.compiler.wasm.encode import encode_body
from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.live.dispatch import dispatch_module
from nnjit_studio.foreign_wasm.live.layout import SLOTS, TABLE
from nnjit_studio.foreign_wasm.live.rewrite import swappable
from nnjit_studio.foreign_wasm.turbo.kernels.callers import refused
from nnjit_studio.foreign_wasm.turbo.kernels.find import find
from nnjit_studio.foreign_wasm.turbo.kernels.guard import Donor, replace
from nnjit_studio.foreign_wasm.turbo.kernels.module import donor_module
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import Mode, Tile, sgemm
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.module import read

KERNELS = (ZERO, ADD)


class Instance:
    """An instance in wasmtime."""

    def __init__(self, data: bytes) -> None:
        self.store = wasmtime.Store(engine())
        made = wasmtime.Instance(self.store, wasmtime.Module(engine(), data), [])
        self.exports = made.exports(self.store)

    def walk(self, case: Case) -> np.ndarray:
        """The memory after ``walk``."""
        memory = self.exports["memory"]
        memory.write(self.store, case.image.tobytes(), 0)
        a, b, c = 4 * case.a, 4 * case.b, 4 * case.c
        sizes = case.k, case.m, case.n, case.lda, case.ldc
        self.exports["walk"](self.store, a, b, c, *sizes, case.alpha)
        after = memory.read(self.store, 0, 4 * FLOATS)
        return np.frombuffer(bytes(after), np.uint32)


def test_kernels_are_found_by_type_and_loops() -> None:
    assert find(read(runtime())) == KERNELS
    assert refused(read(runtime()), KERNELS) == {}


@pytest.mark.parametrize(
    ("given", "function", "reason"),
    [
        ({"keeps": False}, ZERO, "may not use the rows"),
        ({"in_table": True}, ADD, "through a table"),
        ({"exported": True}, ADD, "exported as add"),
    ],
)
def test_a_function_with_other_callers_is_left_alone(
    given: dict[str, bool], function: int, reason: str
) -> None:
    found = refused(read(runtime(**given)), KERNELS)
    assert list(found) == [function]
    assert reason in found[function]


def test_a_returned_row_count_is_not_known_to_be_used() -> None:
    """Its caller's callers would have to be looked at too."""
    module = read(runtime())
    body = module.body(ROWS)
    ends_in_local = body.replace(b"\x22\x09\x0b", b"\x0b")
    assert ends_in_local != body
    assert list(refused(read(edit.replace(module, {ROWS: ends_in_local})), KERNELS)) == [ADD]


@pytest.mark.parametrize("seed", range(8))
def test_the_rewritten_module_computes_the_same(seed: int) -> None:
    case = Case.random(seed)
    rewritten = swappable(read(runtime()), KERNELS)
    assert len(rewritten) - len(runtime()) < 120
    expected = Instance(runtime()).walk(case)
    assert np.array_equal(Instance(rewritten).walk(case), expected)


def test_what_stands_in_the_table_is_called() -> None:
    case = Case.random(2)
    instance = Instance(swappable(read(runtime()), KERNELS))
    store, table = instance.store, instance.exports[TABLE]
    assert table.size(store) == SLOTS * len(KERNELS)
    module = wasmtime.Module(engine(), donor_module(Tile(6, 8), False, False))
    donor = wasmtime.Instance(store, module, [instance.exports["memory"]]).exports(store)
    table.set(store, 0, donor["zero"])
    assert np.array_equal(instance.walk(case), case.expected(Mode.ZERO).view(np.uint32))
    table.set(store, 0, None)
    with pytest.raises(wasmtime.Trap):
        instance.walk(case)


def test_a_module_is_rewritten_once() -> None:
    with pytest.raises(WasmError, match="rewritten already"):
        swappable(read(swappable(read(runtime()), KERNELS)), KERNELS)


@pytest.mark.parametrize("fma", [False, True])
def test_a_guarded_donor_replaces_and_steps_back(fma: bool) -> None:
    """Where C lies over A, rows that were read too early would show."""
    tile = Tile(6, 8)
    donors = {ZERO: Donor(Mode.ZERO, tile, fma), ADD: Donor(Mode.ADD, tile, fma)}
    replaced = Instance(replace(read(runtime()), donors))
    original = Instance(runtime())
    case = Case.random(4)
    after = replaced.walk(case).view(np.float32)
    bound = case.bound(Mode.ZERO) if fma else np.zeros(FLOATS)
    assert (np.abs(after.astype(np.float64) - case.expected(Mode.ZERO)) <= bound).all()
    over = Case(**{**case.__dict__, "c": case.a + case.lda, "ldc": case.lda})
    expected = original.walk(over)
    assert np.array_equal(replaced.walk(over), expected)
    bare = {index: encode_body(sgemm(d.mode, d.tile, d.fma)) for index, d in donors.items()}
    unguarded = Instance(edit.replace(read(runtime()), bare))
    assert not np.array_equal(unguarded.walk(over), expected)


def test_the_dispatchers_module_is_valid() -> None:
    config = wasmtime.Config()
    config.wasm_threads = True
    config.shared_memory = True
    module = wasmtime.Module(wasmtime.Engine(config), dispatch_module(2))
    assert [i.name for i in module.imports] == ["sync", "table", "control"]
    assert [e.name for e in module.exports] == ["dispatch0", "dispatch1"]
    assert WALK not in KERNELS
