"""The compile cost for people."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from nnjit_studio.foreign_wasm.inspection.cost.records import CompileCost, TierCost
from nnjit_studio.foreign_wasm.inspection.cost.verdict import slowest, verdict
from nnjit_studio.support.tables import text_table


def as_text(cost: CompileCost, top: int, name: Callable[[int], str]) -> str:
    """The verdict, totals of the tiers, and the slowest functions."""
    totals = [
        (
            tier.tier,
            tier.method,
            f"{len(tier.functions):,}",
            f"{sum(c.ms for c in tier.functions.values()):,.1f}",
            _or_dash(tier.whole_ms, ",.0f"),
            _mib(sum(c.code_bytes or 0 for c in tier.functions.values()) or None),
            _mib(tier.peak_rss_bytes),
        )
        for tier in cost.tiers
    ]
    heads = ("tier", "by", "functions", "sum ms", "module ms", "code MiB", "peak RSS MiB")
    rows = [
        (
            index,
            name(index),
            *chain.from_iterable(
                _cells(tier.functions.get(index, TierCost(()))) for tier in cost.tiers
            ),
        )
        for index in slowest(cost, top)
    ]
    columns = chain.from_iterable(
        (f"{t.tier} ms", "low to high", "code kB", "memory MiB") for t in cost.tiers
    )
    failed = [f"function {i} is refused: {text}" for i, text in cost.failed.items()]
    return "\n\n".join(
        (
            "\n".join((verdict(cost, name), *failed)),
            f"Compiled by {cost.version}:",
            text_table(heads, totals, left=(0, 1)),
            f"The slowest functions in {cost.tiers[-1].tier}:",
            text_table(("index", "name", *columns), rows, left=(1,)),
        )
    )


def _cells(cost: TierCost) -> tuple[str, str, str, str]:
    if not cost.samples_ms:
        return "-", "-", "-", "-"
    low, high = min(cost.samples_ms), max(cost.samples_ms)
    spread = f"{low:.2f} to {high:.2f}" if len(cost.samples_ms) > 1 else "-"
    code = "-" if cost.code_bytes is None else f"{cost.code_bytes / 1000:,.1f}"
    return f"{cost.ms:,.2f}", spread, code, _mib(cost.memory_bytes)


def _mib(nbytes: int | None) -> str:
    return "-" if nbytes is None else f"{nbytes / 2**20:,.1f}"


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
