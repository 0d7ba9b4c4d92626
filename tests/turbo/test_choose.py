"""Which measured bodies are kept."""

from __future__ import annotations

from dataclasses import replace

from test_loops import module_of, splat_kernel

from nnjit_studio.foreign_wasm.turbo.candidates import find
from nnjit_studio.foreign_wasm.turbo.choose import best
from nnjit_studio.foreign_wasm.turbo.gate.gain import Gain
from nnjit_studio.foreign_wasm.turbo.gate.gate import Tried
from nnjit_studio.foreign_wasm.turbo.loops.schedule import Plan
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA, SCHEDULE

((LOOP, (VARIANT, *_)),) = find(module_of(splat_kernel(4, 3), 40), 15, False).candidates[0].loops


def tried(passed: str, peak: int, low: float, median: float, high: float) -> Tried:
    variant = replace(VARIANT, passed=passed, plan=Plan((), peak))
    return Tried(7, LOOP, variant, Gain(median, low, high), 9, 9, True, 1.05)


def test_of_orders_that_are_not_told_apart_the_one_with_fewest_vectors_is_kept() -> None:
    few, many = tried(SCHEDULE, 12, 1.3, 1.46, 1.7), tried(SCHEDULE, 14, 1.4, 1.6, 1.8)
    assert best([many, few], False) == {(7, LOOP.first): few}


def test_a_faster_order_is_kept_whatever_it_holds() -> None:
    few, many = tried(SCHEDULE, 12, 1.3, 1.4, 1.5), tried(SCHEDULE, 14, 1.5, 1.6, 1.7)
    assert best([few, many], False) == {(7, LOOP.first): many}


def test_fused_bodies_compete_by_speed_and_only_where_they_may() -> None:
    exact, fused = tried(SCHEDULE, 12, 1.3, 1.5, 1.8), tried(FMA, 14, 1.5, 1.7, 1.9)
    assert best([exact, fused], True) == {(7, LOOP.first): fused}
    assert best([exact, fused], False) == {(7, LOOP.first): exact}


def test_what_is_wrong_or_gains_too_little_is_not_kept() -> None:
    wrong = replace(tried(SCHEDULE, 12, 1.9, 2.0, 2.1), equal=False)
    assert best([wrong, tried(SCHEDULE, 13, 1.01, 1.03, 1.04)], False) == {}
