"""Duels and wrong kernels where a fake page decides what comes out."""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tuner_fakes import FakeClock, FakeRunner

from nnjit_studio.bench.tuner import mutants
from nnjit_studio.bench.tuner.duels import (
    Fought,
    _aa,
    _blocks,
    _is_right,
    _kernel,
    _rows,
    duels_report,
    make_arena,
    sentences,
    upper_bound,
)
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.errors import BugError, CompileError
from nnjit_studio.model import Plan
from nnjit_studio.records import DeviceProfile, Fixture, Kernel, MeasurePolicy, RunResult

DEVICE = DeviceProfile("cpu", "embedded", tiers=("simd128", "relaxed-simd"))
SMALL = "matmul:12x16x20:f32"


@dataclass
class Gate:
    """Knows the right bytes; ``accepts`` and ``digest`` are a test's."""

    right: set[str]
    accepts: Callable[[Kernel], bool]
    digest: Callable[[Kernel], str]
    fixtures: list[Fixture] = field(default_factory=list)

    def set_fixture(self, fixture: Fixture) -> None:
        self.fixtures.append(fixture)

    def measure(
        self, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
    ) -> RunResult:
        same = (challenger.workload, challenger.settings, challenger.tier)
        if challenger.sha256 in self.right or self.accepts(challenger):
            return RunResult(*same, (1.0,), (), 1, 0.1, True, digest=self.digest(challenger))
        return RunResult(*same, error_ratio=2.0, guard_ok=True, digest="wrong")


@pytest.fixture
def right(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Digests of all right kernels of one small matmul, the only victim."""
    monkeypatch.setattr(mutants, "SPECS", (SMALL,))
    monkeypatch.setattr(mutants, "softmax_program", lambda *_: mutants.layernorm_program(3, 8))
    return {
        hashlib.sha256(compile_program(victim.program, c, tier).data).hexdigest()
        for victim in mutants.victims(DEVICE)
        for c in victim.candidates
        for tier in DEVICE.tiers
    }


def judge(gate: Gate, count: int = 9) -> dict[str, Any]:
    return mutants.bench_mutants(gate, DEVICE, count, lambda text: None)  # type: ignore[arg-type]


def test_a_gate_that_knows_right_from_wrong_lets_no_mutant_pass(right: set[str]) -> None:
    result = judge(Gate(right, lambda k: False, lambda k: "same"))
    assert result["mutants"] == result["correct"] == 9
    assert result["caught"] == {"values": 9}
    assert result["survivors"] == result["rejected"] == []
    assert sum(result["kinds"].values()) == 9


def test_a_gate_that_accepts_everything_is_found_out(right: set[str]) -> None:
    result = judge(Gate(right, lambda k: True, lambda k: k.sha256))
    assert len(result["survivors"]) == result["mutants"] == 9
    assert "other bits" in result["survivors"][0]["found"]


def test_mutants_are_equivalent_only_if_all_bits_of_all_seeds_agree(right: set[str]) -> None:
    gate = Gate(right, lambda k: True, lambda k: "same")
    with pytest.raises(BugError, match="Almost every"):
        judge(gate, 3)
    gate.digest = lambda k: ""
    assert len(judge(gate, 3)["survivors"]) == 3  # no digest proves nothing


def test_a_gate_that_rejects_right_kernels_is_found_out() -> None:
    result = judge(Gate(set(), lambda k: False, lambda k: ""), 5)
    assert len(result["rejected"]) == 5


def test_every_challenger_has_bytes_of_its_own_around_the_same_code() -> None:
    arena = make_arena(SMALL, DEVICE)
    names = itertools.count()
    one, two = _kernel(arena, arena.original, names), _kernel(arena, arena.original, names)
    assert one.sha256 != two.sha256
    code = arena.original.data
    assert one.data[: len(code)] == two.data[: len(code)] == code
    assert (one.panels, one.parallel_extent) == (two.panels, two.parallel_extent)


def test_a_kernel_against_itself_is_counted_as_a_false_swap_when_it_wins() -> None:
    arena = make_arena(SMALL, DEVICE)
    runner = FakeRunner(FakeClock(), Plan("toy", (), (), (), (), 0, 0), speed=lambda w, c: 1.0)
    result = _aa(runner, [arena], 6, itertools.count(), lambda text: None)
    assert (result["duels"], result["false_swaps"]) == (6, 0)
    measure = runner.measure

    def biased(challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy) -> RunResult:
        found = measure(challenger, incumbent, policy)
        return RunResult(
            *(found.workload, found.settings, found.tier),
            tuple(ms / 2 for ms in found.samples_ms),
            found.incumbent_ms,
            8,
            0.1,
            True,
        )

    runner.measure = biased  # type: ignore[method-assign]
    assert _aa(runner, [arena], 6, itertools.count(), lambda text: None)["false_swaps"] == 6


def test_duels_that_were_not_fought_are_no_right_decisions() -> None:
    arena = make_arena(SMALL, DEVICE)

    class Broken(Gate):
        def measure(self, *_: Any) -> RunResult:
            lost = len(broken) < broken.maxlen
            broken.append(1)
            return RunResult(SMALL, "", "", error="trap") if lost else same

    same = RunResult(SMALL, "", "", (1.0, 1.01), (1.0, 1.01), 1, 0.1, True)
    broken: deque[int] = deque(maxlen=4)
    gate = Broken(set(), lambda k: True, lambda k: "")
    result = _aa(gate, [arena], 6, itertools.count(), lambda text: None)  # type: ignore[arg-type]
    assert (result["duels"], result["undecided"], result["false_swaps"]) == (6, 4, 0)
    assert result["upper_95"] == upper_bound(0, 2)
    assert "4 failed and were not counted" in "".join(sentences({"aa": result}))
    broken = deque(maxlen=99)
    with pytest.raises(CompileError, match="No duel"):
        _aa(gate, [arena], 3, itertools.count(), lambda text: None)  # type: ignore[arg-type]


def test_right_decisions_in_both_roles() -> None:
    fought = [Fought("w", state, 1.0, 4, 0.1) for state in ("won", "slower", "wrong")]
    assert [_is_right(f, "slower") for f in fought] == [False, True, False]
    assert [_is_right(f, "faster") for f in fought] == [True, False, False]
    (row,) = _rows(fought)
    assert (row["duels"], row["won"], row["pairs"]) == (3, 1, 4)


def test_duels_go_round_the_workloads_in_blocks() -> None:
    arenas: list[Any] = ["a", "b", "c"]
    assert list(_blocks(arenas, 60)) == [("a", 20), ("b", 20), ("c", 20)]
    turns = list(_blocks(arenas, 160))
    assert sum(count for _, count in turns) == 160
    assert [arena for arena, _ in turns] == ["a", "b", "c", "a", "b", "c", "a"]
    assert list(_blocks(arenas, 2)) == [("a", 1), ("b", 1)]


def test_upper_bound_of_a_share() -> None:
    assert upper_bound(0, 300) == pytest.approx(1 - 0.05 ** (1 / 300), rel=1e-6)
    assert upper_bound(10, 1000) == pytest.approx(0.0169, abs=1e-4)
    assert upper_bound(3, 3) == 1.0


def test_results_read_as_sentences_and_tables() -> None:
    rows = [{"workload": "w", "duels": 2, "won": 0, "speedup": 1.0, "pairs": 4.0, "seconds": 0.1}]
    result = {
        "date": "2026-11-21T00:00:00+00:00",
        "cpu": "c",
        "cores": 2,
        "versions": {},
        "target": "embedded",
        "threads": 1,
        "aa": {
            "duels": 2,
            "undecided": 0,
            "false_swaps": 0,
            "share": 0.0,
            "upper_95": 0.78,
            "rows": rows,
        },
        "slowed": [
            {
                "workload": "w",
                "ms": 1.0,
                "time": 1.05,
                "low": 1.04,
                "high": 1.06,
                "fastest": 1.05,
                "calibrated": False,
            }
        ],
        "slower": {"duels": 2, "correct": 2, "share": 1.0, "rows": rows},
        "mutants": {
            "mutants": 9,
            "caught": {"values": 8, "trap": 1},
            "survivors": [],
            "equivalent": 1,
            "correct": 9,
            "rejected": [],
        },
    }
    for text in (duels_report(result).text(), duels_report(result).markdown()):
        assert "2 duels of a kernel with itself: 0 false swaps" in text
        assert "slowed to 1.050x" in text
        assert "not 5 %, the machine was too busy" in text
        assert "9 wrong kernels: 0 accepted; caught 8 by values, 1 by trap; 1 more" in text
