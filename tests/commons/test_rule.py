"""The crowd's rule: majority, outliers, Sybils, silence below k, two levels, extended space."""

from __future__ import annotations

import random

import pytest

from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import FEWEST, believe, two_levels
from nnjit_studio.commons.rule.extended import extended_space, kept_promise
from nnjit_studio.commons.rule.residuals import weights_of

TRUE = {"a": 2.0, "b": 1.9, "c": 1.7, "d": 1.5, "e": 1.4, "f": 0.5}


def honest(number: int, source: str = "", seed: int = 0) -> Ballot:
    chance = random.Random(seed * 100_003 + number)
    figures = {s: v * chance.gauss(1, 0.02) for s, v in TRUE.items()}
    ranked = sorted(figures.items(), key=lambda item: -item[1])[:5]
    return Ballot(f"v{number}", source or f"s{number}", "0" * 16, tuple(ranked))


def liar(number: int, source: str = "") -> Ballot:
    lie = (("f", 9.0 + number * 1e-6), ("e", 8.0))
    return Ballot(f"l{number}", source or f"t{number}", "0" * 16, lie)


def test_the_fastest_is_believed_with_its_speed_up() -> None:
    belief = believe([honest(n) for n in range(9)])
    assert belief is not None and belief.best[0].settings == "a"
    assert belief.best[0].speedup == pytest.approx(2.0, rel=0.03)
    assert belief.sources == belief.devices == 9 and belief.dissent < 0.3
    assert "f" not in [s.settings for s in belief.best]


def test_below_k_reporters_nothing_is_said() -> None:
    assert believe([honest(n) for n in range(FEWEST - 1)]) is None
    assert believe([]) is None
    assert believe([honest(n, source="one house") for n in range(100)]) is None


def test_thirty_percent_that_agree_do_not_win() -> None:
    ballots = [honest(n) for n in range(14)] + [liar(n) for n in range(6)]
    belief = believe(ballots)
    assert belief is not None and belief.best[0].settings == "a"
    assert "f" not in [s.settings for s in belief.best] and belief.dissent > 0.2
    weights = weights_of(ballots)
    assert max(weights[14:]) < 0.1 * min(weights[:14])


def test_many_names_of_few_addresses_have_few_voices() -> None:
    ballots = [honest(n) for n in range(12)] + [liar(n, f"t{n % 5}") for n in range(5_000)]
    belief = believe(ballots)
    assert belief is not None and belief.best[0].settings == "a"
    assert "f" not in [s.settings for s in belief.best]


def test_copies_share_one_voice() -> None:
    one = liar(0).ranked
    copies = [Ballot(f"l{n}", f"t{n}", "0" * 16, one) for n in range(20)]
    belief = believe([honest(n) for n in range(7)] + copies)
    assert belief is not None and belief.best[0].settings == "a"


def test_the_order_of_reports_does_not_matter() -> None:
    ballots = [honest(n) for n in range(9)] + [liar(n) for n in range(3)]
    turned = list(reversed(ballots))
    first, second = believe(ballots), believe(turned)
    assert first is not None and second is not None
    assert [s.settings for s in first.best] == [s.settings for s in second.best]


def test_the_family_speaks_where_the_exact_device_is_too_rare() -> None:
    family = [honest(n) for n in range(9)]
    wide = two_levels(family[:2], family)
    assert wide is not None and wide.of_family and wide.best[0].settings == "a"
    exact = two_levels(family[:6], family)
    assert exact is not None and not exact.of_family and exact.devices == 6
    assert two_levels([], family[:3]) is None


def test_the_extended_space_is_small_and_of_what_can_be_built_here() -> None:
    lite = [*"abdef", *(f"x{n}" for n in range(45))]
    belief = believe([honest(n) for n in range(9)])
    known = extended_space(lite, belief)
    assert known.exploitation[0] == "a" and "c" not in known.exploitation
    assert known.exploration == ()
    wide = extended_space(lite, two_levels([], [honest(n) for n in range(9)]))
    assert len(wide.exploration) == 5 and not set(wide.exploration) & set(wide.exploitation)
    assert extended_space(lite, None).exploration == tuple(lite)


def test_what_independent_devices_call_faster_is_tried_without_a_majority() -> None:
    told = [(("d", 1.5 + n / 100), ("e", 1.4 + n / 100)) for n in range(9)]
    slow = [Ballot(f"o{n}", f"p{n}", "0" * 16, ballot) for n, ballot in enumerate(told)]
    belief = believe([*slow, *(honest(n) for n in range(3))])
    assert belief is not None and belief.best[0].settings == "d"
    assert [s.settings for s in belief.challengers][:2] == ["a", "b"]
    assert extended_space([*"abcdef"], belief).exploration[:3] != ()
    alone = believe([*slow, honest(0)])
    assert alone is not None and alone.challengers == (), "one source alone is no challenge"


def test_an_answer_of_few_addresses_is_explored_beside() -> None:
    few = believe([honest(n, source=f"s{n % 5}") for n in range(40)])
    assert few is not None and few.crowded
    lite = [*"abcdef", *(f"x{n}" for n in range(44))]
    assert len(extended_space(lite, few).exploration) == 5


def test_a_promise_is_kept_or_not() -> None:
    assert kept_promise(2.0, 1.95) and kept_promise(1.0, 1.0)
    assert not kept_promise(9.0, 0.5) and not kept_promise(2.0, 1.0)
