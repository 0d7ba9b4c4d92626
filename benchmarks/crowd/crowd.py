"""A whole crowd: devices of many kinds arrive one after another, some of them liars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from crowd_devices import Device, Kind
from crowd_tuning import LITE, Outcome, ballot, tune

from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import Belief, believe


@dataclass(frozen=True)
class CrowdOptions:
    """A crowd and its attackers.

    Attributes
    ----------
    devices, kinds
        Honest devices and liars together, and kinds of hardware among them.
    liars
        Share of devices, each with an address of its own, that agree on one lie.
    sybils, sybil_sources
        Invented devices per kind that tell the same lie, and blocks of addresses they come from.
    truthful
        Whether the lie names slow settings with their true speed-ups: promises that are kept.
    heard
        Newest ballots of a kind that the rule is applied to.
    """

    devices: int = 2_000
    kinds: int = 10
    seed: int = 1
    liars: float = 0.0
    sybils: int = 0
    sybil_sources: int = 50
    truthful: bool = False
    heard: int = 200


@dataclass
class CrowdResult:
    """Figures of the honest devices, in the order in which they came.

    ``known`` holds those of devices that came when their kind had an answer.
    """

    rounds: list[int] = field(default_factory=list)
    known_rounds: list[int] = field(default_factory=list)
    known_to_3_percent: list[int] = field(default_factory=list)
    regrets: list[float] = field(default_factory=list)
    known_regrets: list[float] = field(default_factory=list)
    worst: float = 1.0
    searched: int = 0

    def to_json(self) -> dict[str, float]:
        """The lines that a crowd is judged by; regrets and ratios as numbers, not percent."""
        return {
            "honest_devices": len(self.rounds),
            "of_a_known_kind": len(self.known_rounds),
            "rounds_to_3_percent_median": _median(self.known_to_3_percent),
            "rounds_median": _median(self.known_rounds),
            "regret_mean": _mean(self.regrets),
            "regret_mean_known": _mean(self.known_regrets),
            "regret_p99": float(np.quantile(self.regrets, 0.99)) if self.regrets else 0.0,
            "slowest_over_default": self.worst,
            "searched_share": self.searched / max(1, len(self.rounds)),
        }


def _median(figures: list[int]) -> float:
    return float(np.median(figures)) if figures else float("nan")


def _mean(figures: list[float]) -> float:
    return float(np.mean(figures)) if figures else float("nan")


def simulate(options: CrowdOptions, part: range | None = None) -> CrowdResult:
    """Let a crowd live: every kind by itself, because the rule never mixes two kinds.

    With ``part`` only these kinds of it, so that processes can share the work.
    """
    result = CrowdResult()
    seeds = np.random.SeedSequence(options.seed).spawn(options.kinds)
    each, more = divmod(options.devices, options.kinds)
    for number in part or range(options.kinds):
        _live(options, each + (number < more), np.random.default_rng(seeds[number]), result)
    return result


def merged(parts: Iterable[CrowdResult]) -> CrowdResult:
    """The figures of all parts."""
    whole = CrowdResult()
    for part in parts:
        for name in ("rounds", "known_rounds", "known_to_3_percent", "regrets", "known_regrets"):
            getattr(whole, name).extend(getattr(part, name))
        whole.worst = max(whole.worst, part.worst)
        whole.searched += part.searched
    return whole


def _live(
    options: CrowdOptions, devices: int, rng: np.random.Generator, result: CrowdResult
) -> None:
    """One kind: a snapshot is published at growing numbers of reports, as a server would."""
    kind = Kind.draw(rng)
    lie = _lie(kind, rng, options.truthful)
    ballots: list[Ballot] = list(_sybils(options, lie, rng))
    belief, next_snapshot = believe(ballots) if ballots else None, 5
    for number in range(devices):
        if rng.random() < options.liars:
            ballots.append(ballot(number, f"s{number}", _told(lie, rng)))
            continue
        outcome = tune(device := Device.draw(kind, rng), belief, rng)
        ballots.append(ballot(number, f"s{number}", outcome.ranked))
        _count(result, device, belief, outcome)
        if number + 1 >= next_snapshot:
            belief = believe(_heard(ballots, options))
            next_snapshot = max(next_snapshot + 5, int(1.5 * next_snapshot))


def _heard(ballots: list[Ballot], options: CrowdOptions) -> list[Ballot]:
    """The newest ballots, and all of the Sybils, who would keep theirs fresh."""
    return [*ballots[: options.sybils], *ballots[options.sybils :][-options.heard :]]


def _count(result: CrowdResult, device: Device, belief: Belief | None, outcome: Outcome) -> None:
    regret = device.regret(outcome.chosen)
    result.rounds.append(outcome.rounds)
    result.regrets.append(regret)
    result.worst = max(result.worst, outcome.worst)
    result.searched += outcome.searched
    if belief is not None and belief.best:
        result.known_rounds.append(outcome.rounds)
        result.known_to_3_percent.append(outcome.rounds_to_3_percent)
        result.known_regrets.append(regret)


def _lie(kind: Kind, rng: np.random.Generator, truthful: bool) -> tuple[tuple[str, float], ...]:
    """Five bad settings, with speed-ups that a good one could have, or with their own."""
    slow = np.argsort(kind.times_ms[: len(LITE)])[len(LITE) // 2 :]
    chosen = rng.choice(slow, 5, replace=False)
    claims: Iterable[float] = (2.5, 2.4, 2.3, 2.2, 2.1)
    if truthful:
        chosen = chosen[np.argsort(kind.times_ms[chosen])]
        claims = (kind.times_ms[-1] / kind.times_ms[chosen]).tolist()
    return tuple(zip((LITE[i] for i in chosen), claims, strict=True))


def _told(
    lie: tuple[tuple[str, float], ...], rng: np.random.Generator
) -> tuple[tuple[str, float], ...]:
    """The lie with a little noise of its own, so that it is no copy."""
    return tuple(
        (settings, speedup * float(np.exp(rng.normal(0, 0.01)))) for settings, speedup in lie
    )


def _sybils(
    options: CrowdOptions, lie: tuple[tuple[str, float], ...], rng: np.random.Generator
) -> Iterator[Ballot]:
    for number in range(options.sybils):
        source = f"sybil {number % options.sybil_sources}"
        yield ballot(-1 - number, source, _told(lie, rng))
