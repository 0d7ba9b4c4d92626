"""Settings against the first guess at several sizes, on fakes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tuner_fakes import BIG, DEVICE, FakeCompiler, Stage

from nnjit_studio.errors import CompileError
from nnjit_studio.model import Workload
from nnjit_studio.model.family import Family
from nnjit_studio.records import Kernel
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.size_tuning import SizeTuning
from nnjit_studio.tuner.queue import References
from nnjit_studio.tuner.session_clock import SessionClock
from nnjit_studio.tuner.sizes.comparison import Comparison, Place

FAMILY = Family("matmul", (None, 768, 768), "f32", (), "ff")
GUESS, FEW, MANY = (Candidate(8, y, 4, 8, y, 768) for y in (6, 2, 5))
TILES = {"few": FEW, "many": MANY}
RATES = {16: {2: 0.5, 5: 1.5}, 384: {2: 1.5, 5: 0.5}}
"""Time over the first guess's, by size and rows of a tile."""


def at(size: int) -> Workload:
    return replace(BIG, dims=(size, 768, 768), flops=size * 1000)


def place(size: int, **tiles: Candidate) -> Place:
    return Place(at(size), 0.5, GUESS, tiles or TILES)


def speed(workload: str, candidate: Candidate | None) -> float:
    size = int(workload.partition(":")[2].partition("x")[0])
    return size * RATES[size].get(candidate.y0 if candidate else 0, 1.0)


def compared(
    *places: Place,
    wrong: Callable[[Kernel], bool] = lambda kernel: False,
    compiler: FakeCompiler | None = None,
) -> tuple[SizeTuning, list[tuple[int, str]]]:
    stage = Stage((), compiler=compiler or FakeCompiler())
    stage.runner.speed, stage.runner.wrong = speed, wrong
    with References(stage.compiler) as references:
        comparison = Comparison(FAMILY, places, stage.context, clock_of(stage), references)
        told = [(where.workload.dims[0], settings) for where, settings in comparison.run()]
    assert comparison.complete
    return comparison.result("few"), told


def clock_of(stage: Stage, seconds: float | None = None) -> SessionClock:
    clock = SessionClock(stage.clock, seconds=seconds)
    clock.timing_s = 0.0
    return clock


@pytest.mark.parametrize("takes_s", [0.0, 1e6])
def test_no_kernel_is_compared_beyond_the_budget(takes_s: float) -> None:
    stage = Stage((), compiler=FakeCompiler(takes=lambda workload: takes_s))
    stage.runner.speed, began_s = speed, stage.clock.now_s
    with References(stage.compiler) as references:
        clock = clock_of(stage, 0.5)
        comparison = Comparison(FAMILY, (place(16), place(384)), stage.context, clock, references)
        told = len(list(comparison.run()))
    assert not comparison.complete and told == (2 if not takes_s else 0)
    assert stage.clock.now_s - began_s <= 0.5 + stage.runner.round_s


def test_each_size_says_what_settings_are_worth_there() -> None:
    found, told = compared(place(16), place(384))
    assert told == [(16, "few"), (16, "many"), (384, "few"), (384, "many")]
    assert [(row.size, row.ms, row.share) for row in found.at] == [
        (16, pytest.approx(16, rel=0.01), 0.5), (384, pytest.approx(384, rel=0.01), 0.5)
    ]  # fmt: skip
    for row, few, many in zip(found.at, (2, 1 / 1.5), (1 / 1.5, 2), strict=True):
        assert row.of("few")[0] == pytest.approx(few, rel=0.01)
        assert row.of("many")[0] == pytest.approx(many, rel=0.01)
    assert (found.key.dims, found.key.fingerprint) == ("?x768x768", "ff")
    assert found.key.device_id == DEVICE.device_id and found.guess == str(GUESS)
    assert found.workload == "matmul:?x768x768:f32#ff"


def test_what_is_wrong_at_one_size_is_left_out_at_all() -> None:
    found, told = compared(
        place(16), place(384), wrong=lambda k: k.candidate == MANY and "384x" in k.workload
    )
    assert (384, "many") in told
    assert [sorted(row.speedups) for row in found.at] == [["few"], ["few"]]
    assert found.before == "few"
    assert compared(place(16), wrong=lambda k: k.candidate == FEW)[0].before == "default"
    found, told = compared(
        place(16), place(384), wrong=lambda k: k.candidate == MANY and "16x" in k.workload
    )
    assert (384, "many") not in told, "it is not measured again"


def test_what_does_not_compile_at_a_size_is_unknown_there() -> None:
    compiler = FakeCompiler(fails=lambda tile: tile == FEW)
    found, _ = compared(place(16), place(384), compiler=compiler)
    assert [sorted(row.speedups) for row in found.at] == [["many"], ["many"]]
    with pytest.raises(CompileError, match="first guess of matmul:16x768x768:f32 does not compile"):
        compared(place(16), compiler=FakeCompiler(fails=lambda tile: tile == GUESS))


def test_the_same_bytes_as_the_first_guess_are_worth_the_same() -> None:
    found, _ = compared(place(16, same=GUESS))
    assert found.at[0].speedups == {"same": (1.0, 1.0, 1.0)}
