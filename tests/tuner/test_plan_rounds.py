from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tuner_fakes import DEVICE, FakeClock, FakeRecords

from nnjit_studio.errors import UserError
from nnjit_studio.model.plan_choice import RULE, PlanChoice, changed, parse, spell
from nnjit_studio.records import KernelKey, MeasurePolicy, Trial
from nnjit_studio.tuner.events import Event, Measured, PlanSettled, RoundDone, SpaceBuilt, Swapped
from nnjit_studio.tuner.plan.rounds import Forms, PlanOptions, PlanRounds
from nnjit_studio.tuner.plan.space import neighbours, ways_known

TILES = PlanChoice("winograd:64x56x56x64", "4x4", "4x4", ("direct", "2x2"), "tiles")
MERGE = PlanChoice("merge_products", "on", "on", ("off",), "Q, K and V")
MS = {"4x4": 10.0, "direct": 20.0, "2x2": 8.0, "on": 5.0, "off": 5.0}
KEY = KernelKey("plan", "", "f32", "", "ab", "", "dev", "fake", "simd128", "1")


@dataclass
class FakeForms:
    """A model whose time is the sum of what its choices take."""

    clock: FakeClock
    ms: dict[str, float] = field(default_factory=lambda: dict(MS))
    wrong: Callable[[dict[str, str]], float] = lambda ways: 1e-6
    broken: frozenset[str] = frozenset()
    made: dict[str, str] | None = None
    ways: dict[str, str] = field(default_factory=dict)
    key: KernelKey = KEY
    name: str = "plan:toy#ab"
    flops: int = 10**9
    adopted: list[str] = field(default_factory=list)
    dropped: int = 0

    @property
    def choices(self) -> Sequence[PlanChoice]:
        def now(choice: PlanChoice) -> PlanChoice:
            value = self.ways.get(choice.name, choice.rule)
            all_of = (choice.rule, *(TILES if choice.name == TILES.name else MERGE).others)
            return replace(choice, value=value, others=tuple(v for v in all_of if v != value))

        return [now(TILES), now(MERGE)]

    def total(self, ways: dict[str, str]) -> float:
        return sum(self.ms[ways.get(c.name, c.rule)] for c in (TILES, MERGE))

    def make(self, ways: dict[str, str]) -> None:
        self.clock.now_s += 2.0
        if spell(ways) in self.broken:
            raise UserError("It needs more memory.")
        self.made = ways

    def difference(self) -> float:
        assert self.made is not None
        return self.wrong(self.made)

    def trial(self, policy: MeasurePolicy) -> Trial:
        assert self.made is not None

        def samples(ways: dict[str, str], shift: int) -> tuple[float, ...]:
            ms = self.total(ways)
            return tuple(ms * (1 + 0.01 * ((i + shift) % 2)) for i in range(policy.pairs))

        return Trial("models", 1, samples(self.made, 0), samples(self.ways, 1))

    def adopt(self) -> None:
        assert self.made is not None
        self.ways, self.made = self.made, None
        self.adopted.append(spell(self.ways))

    def drop(self) -> None:
        self.dropped += 1


def tuned(
    forms: FakeForms, records: FakeRecords | None = None, seconds: float | None = None
) -> list[Event]:
    options = PlanOptions(seconds=seconds)
    typed: Forms = forms
    return list(PlanRounds(typed, records or FakeRecords(), DEVICE, forms.clock, options).run())


def of(events: list[Event], kind: type[Event]) -> list[Event]:
    return [e for e in events if isinstance(e, kind)]


def last(events: list[Event]) -> PlanSettled:
    found = events[-1]
    assert isinstance(found, PlanSettled)
    return found


def states(events: list[Event]) -> dict[str, str]:
    return {e.candidate: e.state for e in events if isinstance(e, Measured)}


def test_a_faster_plan_takes_the_place_of_the_rules_and_nothing_else_does() -> None:
    forms, records = FakeForms(FakeClock()), FakeRecords()
    events = tuned(forms, records)
    best = "winograd:64x56x56x64=2x2"
    assert forms.adopted == [best]
    assert states(events)[best] == "won"
    assert states(events)["winograd:64x56x56x64=direct"] == "slower"
    assert states(events)[f"merge_products=off,{best}"] == "not told apart"
    end = last(events)
    assert (end.settings, end.reason) == (best, "converged")
    assert end.speedup == pytest.approx(15 / 13, rel=0.02)
    assert (end.ways, end.rounds) == (6, 3)
    (swap,) = of(events, Swapped)
    assert isinstance(swap, Swapped) and swap.gflops > swap.gflops_before > 0
    assert len(of(events, RoundDone)) == end.rounds == len(records.rows)
    space = of(events, SpaceBuilt)[0]
    assert isinstance(space, SpaceBuilt)
    assert space.naive_size == 6 and all("tiles" in r or "Q, K" in r for r in space.reasons)
    assert forms.dropped == end.rounds - 1  # the memory of a loser is given back


@pytest.mark.parametrize("difference", [0.01, float("inf"), float("nan")])
def test_a_wrong_plan_is_never_swapped_in_however_fast_it_is(difference: float) -> None:
    forms = FakeForms(FakeClock(), ms={**MS, "2x2": 0.1})
    forms.wrong = lambda ways: difference if "2x2" in ways.values() else 0.0
    events = tuned(forms)
    assert forms.adopted == [] and not of(events, Swapped)
    assert states(events)["winograd:64x56x56x64=2x2"] == "wrong"
    assert last(events).settings == RULE


def test_a_plan_that_cannot_be_made_is_a_record_and_not_the_end() -> None:
    forms = FakeForms(FakeClock(), broken=frozenset({"winograd:64x56x56x64=direct"}))
    records = FakeRecords()
    events = tuned(forms, records)
    assert states(events)["winograd:64x56x56x64=direct"] == "failed"
    assert "memory" in next(r for r in records.rows if r.state == "failed").error
    assert forms.adopted == ["winograd:64x56x56x64=2x2"]


def test_what_is_known_is_not_measured_again() -> None:
    records = FakeRecords()
    first = FakeForms(FakeClock())
    tuned(first, records)
    again = FakeForms(FakeClock(), ways=dict(first.ways))
    events = tuned(again, records)
    assert [e.name for e in events] == ["plan"]
    assert last(events).reason == "converged"


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, 0), (1.0, 1), (3.0, 1), (4.5, 2)])
def test_no_round_begins_that_would_end_after_the_time(seconds: float, rounds: int) -> None:
    end = last(tuned(FakeForms(FakeClock()), seconds=seconds))  # a round takes two seconds
    assert (end.reason, end.rounds) == ("time", rounds)


def test_plans_are_spelled_by_what_differs_from_the_rules() -> None:
    assert spell({}) == RULE and parse(RULE) == {}
    ways = {"b": "2x2", "a:1x2": "off"}
    assert spell(ways) == "a:1x2=off,b=2x2" and parse(spell(ways)) == ways
    with pytest.raises(UserError, match="no plan"):
        parse("winograd")
    tiles = replace(TILES, value="2x2", others=("direct", "4x4"))
    assert changed([tiles, MERGE], "merge_products", "off") == {
        "merge_products": "off",
        TILES.name: "2x2",
    }
    assert changed([tiles, MERGE], TILES.name, "4x4") == {}
    assert [e.settings for e in neighbours([tiles])] == [f"{TILES.name}=direct", RULE]
    assert ways_known([]) == 1 and neighbours([]) == []


def test_no_round_is_begun_that_takes_longer_than_the_time() -> None:
    for first_s, rounds in ((1.5, 1), (4.0, 0)):
        forms = FakeForms(FakeClock())
        options = PlanOptions(3.0, first_s)
        events = list(PlanRounds(forms, FakeRecords(), DEVICE, forms.clock, options).run())
        settled = events[-1]
        assert isinstance(settled, PlanSettled) and settled.reason == "time"
        assert settled.rounds == rounds and settled.t_s <= 3.6
