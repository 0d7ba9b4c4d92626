"""Donors judged in an engine: told apart, proven, timed, and put into a module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sgemm_images import Case
from test_rewrite import Instance
from tiny_runtime import ADD, ZERO, runtime

from nnjit_studio.foreign_wasm.turbo.gate.engines import engine_of
from nnjit_studio.foreign_wasm.turbo.gate.gain import Gain
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings
from nnjit_studio.foreign_wasm.turbo.kernels.gate import (
    CASES,
    TILES,
    Judged,
    best,
    judge,
    kernels_of,
    with_donors,
)
from nnjit_studio.foreign_wasm.turbo.kernels.guard import Donor
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import Mode, Tile
from nnjit_studio.wasm_file.module import read

QUICK = Settings(rounds=6, call_ms=0.2)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> list[Judged]:
    folder = tmp_path_factory.mktemp("gate")
    kernels = kernels_of(read(runtime()), folder)
    assert kernels.left_alone == {}
    return judge(kernels, engine_of("node", False), folder, QUICK, True)


def test_every_donor_is_proven_for_the_function_that_it_stands_for(judged: list[Judged]) -> None:
    assert {(j.index, j.donor.mode) for j in judged} == {(ZERO, Mode.ZERO), (ADD, Mode.ADD)}
    assert len(judged) == 2 * 2 * len(TILES)
    for j in judged:
        assert j.cases == 2 * CASES
        if j.donor.fma:
            assert j.identical < j.cases and 0 < j.worst <= 1
        else:
            assert (j.identical, j.worst) == (j.cases, 0)


def test_the_fastest_that_passed_is_taken(judged: list[Judged]) -> None:
    def row(tile: Tile, fma: bool, gain: Gain, identical: int = 9, worst: float = 0.5) -> Judged:
        donor = Donor(Mode.ZERO, tile, fma)
        return Judged(ZERO, donor, gain, 1 / gain.median, 9, identical, worst, 1.05)

    plain, fused, wrong, unsure, slow = (
        row(Tile(4, 8), False, Gain(1.3, 1.2, 1.4)),
        row(Tile(6, 8), True, Gain(1.6, 1.5, 1.7), identical=2),
        row(Tile(5, 8), False, Gain(2.0, 1.9, 2.1), identical=8),
        row(Tile(8, 4), False, Gain(1.9, 0.9, 2.1)),
        row(Tile(2, 16), False, Gain(1.02, 1.01, 1.03)),
    )
    far = row(Tile(5, 8), True, Gain(3.0, 2.9, 3.1), identical=2, worst=1.5)
    rows = [plain, fused, wrong, unsure, slow, far]
    assert best(rows, False) == {ZERO: plain.donor}
    assert best(rows, True) == {ZERO: fused.donor}
    assert best([wrong, unsure, slow, far], True) == {}
    assert all(j.to_json()["tile"] for j in judged)


def test_the_new_module_computes_the_same() -> None:
    donors = {ZERO: Donor(Mode.ZERO, Tile(5, 8), False)}
    case = Case.random(6)
    new = Instance(with_donors(runtime(), donors))
    assert np.array_equal(new.walk(case), Instance(runtime()).walk(case))
    assert with_donors(runtime(), {}) == runtime()


def test_a_module_whose_callers_are_not_known_is_left_alone(tmp_path: Path) -> None:
    kernels = kernels_of(read(runtime(keeps=False, in_table=True)), tmp_path)
    assert judge(kernels, engine_of("node", False), tmp_path, QUICK, False) == []
    assert set(kernels.left_alone) == {ZERO, ADD}
