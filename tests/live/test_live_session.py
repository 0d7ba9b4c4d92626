"""A session's decisions, with a page that answers from a table of speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tiny_runtime import ADD, ZERO, runtime

from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import PageError, UserError
from nnjit_studio.foreign_wasm.live.donors import Block, tile_of
from nnjit_studio.foreign_wasm.live.job import Runtime, exchange
from nnjit_studio.foreign_wasm.live.page import Checked, LivePage, Proof
from nnjit_studio.foreign_wasm.live.session import LiveSession, Setting
from nnjit_studio.records import Kernel, KernelKey, TuningRecord
from nnjit_studio.tuner.events import Event
from nnjit_studio.wasm_file.module import read

RIGHT = Proof(80, 80, 0.0, "")
BLOCKS = [Block("add", 128, 256, 128, 384, 384, 64, 2 * 128 * 256 * 128)]
PLAIN_MS = 100.0
BEST = (5, 8)


class Clock:
    """Moves on by itself, as every look at it costs."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic_s(self) -> float:
        self.now += 0.001
        return self.now

    def now_iso(self) -> str:
        return "2026-11-22T20:00:00+00:00"


class Database:
    def __init__(self) -> None:
        self.stored: list[TuningRecord] = []

    def commit_record(self, record: TuningRecord) -> object:
        self.stored.append(record)
        return len(self.stored)

    def records(self, key: KernelKey) -> Sequence[TuningRecord]:
        return [r for r in self.stored if r.key == key]

    def history(self, workloads: Sequence[Any]) -> Sequence[TuningRecord]:
        return []


class Page(LivePage):
    """Tiles are as fast as ``rated`` says on blocks, and as ``real`` says in the model."""

    def __init__(self, rated: float = 60.0, real: float = 60.0) -> None:
        self._rated, self._real = rated, real
        self.opened, self.flags = {}, ""
        self.checked = Checked(1)
        self.blocks = BLOCKS
        self.proofs: dict[tuple[int, int], Proof] = {}
        self.chosen: list[str] = []
        self.wrong_at = 0

    def _ms(self, kernel: Kernel, best: float) -> float:
        if kernel.candidate is None:
            return PLAIN_MS
        return best if tile_of(kernel) == BEST else best * 1.2

    def know(self, kernel: Kernel, slot: int) -> None:
        assert slot == 1

    def serve(self, runs: int) -> list[float]:
        return [PLAIN_MS] * runs

    def record(self) -> list[Block]:
        return self.blocks

    def add(self, kernel: Kernel) -> Proof:
        return self.proofs.get(tile_of(kernel), RIGHT)

    def rate(self, kernels: Sequence[Kernel], blocks: Sequence[Block], ms: float) -> list[float]:
        return [self._ms(k, self._rated) for k in kernels]

    def choose(self, kernel: Kernel) -> None:
        self.chosen.append(kernel.settings)

    def race(self, kernels: Sequence[Kernel], rounds: int, sample_ms: float) -> list[list[float]]:
        runs = self.checked.runs + rounds * len(kernels)
        self.checked = Checked(runs, int(0 < self.wrong_at <= runs))
        return [[self._ms(k, self._real) + 0.1 * i for i in range(rounds)] for k in kernels]


@pytest.fixture
def given(tmp_path: Path) -> Runtime:
    return Runtime(tmp_path / "r.wasm", exchange(read(runtime()), (ZERO, ADD)))


def session(page: Page, runtime: Runtime, database: Database, tier: str = "simd128") -> LiveSession:
    device = replace(host_profile("chromium"), vector_registers=16)
    setting = Setting(page, runtime, device, tier, "m", cast(Any, database), Clock())
    return LiveSession(setting, 15.0)


def run(live: LiveSession) -> dict[str, list[Event]]:
    events: dict[str, list[Event]] = {}
    for event in live.events():
        events.setdefault(event.name, []).append(event)
    return events


def test_the_best_tile_serves_and_is_remembered(given: Runtime) -> None:
    database, page = Database(), Page()
    live = session(page, given, database)
    events = run(live)
    assert tile_of(live.winner) == BEST
    assert page.chosen == [live.winner.settings]
    (finished,) = events["summary"]
    assert finished.to_json()["workloads"][0]["best"] == live.winner.settings
    won = [r for r in database.stored if r.state == "won"]
    assert [r.sha256 for r in won] == [live.winner.sha256]
    again = session(Page(), given, database)
    (swapped,) = run(again)["swapped"]
    assert swapped.to_json()["from_database"]
    assert again.winner.sha256 == live.winner.sha256


def test_exact_and_fused_kernels_are_remembered_apart(given: Runtime) -> None:
    database = Database()
    exact = session(Page(), given, database)
    run(exact)
    fused = session(Page(), given, database, "relaxed-simd")
    events = run(fused)
    assert not events["swapped"][0].to_json()["from_database"]
    assert fused.winner.sha256 != exact.winner.sha256


def test_a_stored_winner_is_proven_again(given: Runtime) -> None:
    database = Database()
    run(session(Page(), given, database))
    page = Page()
    page.proofs[BEST] = Proof(80, 79, 0.0, "")
    live = session(page, given, database)
    run(live)
    assert tile_of(live.winner) != BEST
    wrong = [r for r in database.stored if r.state == "wrong"]
    assert wrong and "1 of 80 cases differ" in wrong[0].error


def test_what_is_fast_on_blocks_alone_does_not_stay(given: Runtime) -> None:
    page = Page(rated=60.0, real=130.0)
    live = session(page, given, Database())
    events = run(live)
    assert live.winner is live.plain
    assert page.chosen[-1] == "default"
    assert len(events["swapped"]) == 2


def test_the_model_decides_between_donors_whose_rates_are_near(given: Runtime) -> None:
    class Misleading(Page):
        def rate(self, kernels: Sequence[Kernel], *_: Any) -> list[float]:
            told = {BEST: 66.0, (6, 8): 60.0}
            return [told.get(tile_of(k), 72.0) if k.candidate else PLAIN_MS for k in kernels]

    live = session(Misleading(), given, Database())
    events = run(live)
    assert tile_of(live.winner) == BEST
    assert len(events["swapped"]) == 2
    met = [e.to_json() for e in events["measured"]]
    (won,) = [m for m in met if m["state"] == "won"]
    assert won["candidate"] == live.winner.settings
    assert won["speedup"] > 1.5
    assert {m["state"] for m in met if m is not won} <= {"slower", "not told apart"}


def test_donors_that_gain_nothing_are_not_swapped_in(given: Runtime) -> None:
    page = Page(rated=110.0, real=110.0)
    live = session(page, given, Database())
    run(live)
    assert live.winner is live.plain
    assert page.chosen == []


def test_a_wrong_answer_brings_the_originals_back(given: Runtime) -> None:
    page = Page()
    page.wrong_at = 8
    with pytest.raises(PageError, match="not what the kernels may give"):
        run(session(page, given, Database()))
    assert page.chosen[-1] == "default"


def test_a_model_without_such_products_is_told(given: Runtime) -> None:
    page = Page()
    page.blocks = []
    with pytest.raises(UserError, match="asks for none of the kernels"):
        run(session(page, given, Database()))


@pytest.mark.parametrize(
    ("proof", "tier", "right"),
    [
        (RIGHT, "simd128", True),
        (Proof(80, 79, 0.1, ""), "simd128", False),
        (Proof(80, 20, 0.6, ""), "relaxed-simd", True),
        (Proof(80, 20, 1.1, ""), "relaxed-simd", False),
        (Proof(80, 20, None, ""), "relaxed-simd", False),
        (Proof(80, 80, 0.0, "A kernel handled 3 of 2 rows."), "relaxed-simd", False),
    ],
)
def test_what_a_proof_lets_serve(given: Runtime, proof: Proof, tier: str, right: bool) -> None:
    page = Page()
    page.proofs[BEST] = proof
    live = session(page, given, Database(), tier)
    run(live)
    assert (BEST in {tile_of(k) for k in live.donors}) == right
