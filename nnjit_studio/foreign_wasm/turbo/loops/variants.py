"""Other bodies for a loop: the orders and rewrites that are worth measuring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nnjit_studio.foreign_wasm.turbo.loops.graph import LoopGraph
from nnjit_studio.foreign_wasm.turbo.loops.operators import V128
from nnjit_studio.foreign_wasm.turbo.loops.rules import broadcasts, fused
from nnjit_studio.foreign_wasm.turbo.loops.schedule import Plan, peak_of, plans

SCHEDULE, FMA = "schedule", "fma"
"""Passes: A keeps every bit, B fuses multiply-adds."""


@dataclass(frozen=True)
class Variant:
    """A body: its graph, and the order in which it is computed."""

    passed: str
    graph: LoopGraph
    plan: Plan


def variants(graph: LoopGraph, registers: int, fma: bool) -> Iterator[Variant]:
    """Bodies to measure against the original; none where there is nothing to gain.

    Parameters
    ----------
    registers
        Vector registers of the target.
    fma
        Whether multiply-adds may be fused as well.
    """
    chained = sum(graph.nodes[n].type == V128 for n in graph.finals.values())
    if not chained:
        return
    exact = broadcasts(graph)
    before = peak_of(graph, graph.order)
    if before > registers or exact is not graph:
        for plan in plans(exact):
            if plan.peak <= max(registers, before - 1):
                yield Variant(SCHEDULE, exact, plan)
    if not fma:
        return
    faster = fused(exact)
    if faster.finals != exact.finals:
        for plan in plans(faster):
            yield Variant(FMA, faster, plan)
