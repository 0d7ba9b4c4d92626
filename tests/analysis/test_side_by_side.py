"""Browsers side by side: which set of settings is common, and what it costs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nnjit_studio.analysis.browsers.comparison import BrowserComparison
from nnjit_studio.analysis.browsers.crossing import Crossing, Winner
from nnjit_studio.analysis.browsers.tables import as_csv, as_text
from nnjit_studio.errors import UserError
from nnjit_studio.workbench import side_by_side
from nnjit_studio.workbench.side_by_side import compare_browsers

A, B, C = "x0=1,y0=4", "x0=4,y0=8", "x0=8,y0=4"


def samples(ratio: float, seed: int = 0) -> dict[str, tuple[float, ...]]:
    """Pairs whose second is so many times the first, with some noise."""
    rng = np.random.default_rng(seed)
    own = 1 + 0.02 * rng.standard_normal(32)
    other = ratio * (1 + 0.02 * rng.standard_normal(32))
    return {"own_ms": tuple(own.tolist()), "other_ms": tuple(other.tolist())}


def comparison(**changed: Any) -> BrowserComparison:
    """Two browsers, which agree on ``same``; on ``mul`` A costs the second 1.5, B the first 1.1."""
    winners = (
        Winner("chromium", "mul", A, 3, 2.0), Winner("chromium", "same", C, 1, 4.0),
        Winner("firefox", "mul", B, 3, 3.0), Winner("firefox", "same", C, 1, 3.0),
    )  # fmt: skip
    crossings = (
        Crossing("chromium", "mul", B, **samples(1.1)),
        Crossing("firefox", "mul", A, **samples(1.5, 1)),
    )
    given = {"winners": winners, "crossings": crossings, **changed}
    return BrowserComparison("m.onnx", ("chromium", "firefox"), {}, **given)


def test_the_common_set_is_what_costs_all_together_least() -> None:
    found = comparison()
    assert [(c.workload, c.settings) for c in found.common] == [("mul", B), ("same", C)]
    chromium, firefox = found.costs
    # 6 of 10 ms cost a tenth more
    assert chromium.ratio.value == pytest.approx(1.06, abs=0.01)
    assert chromium.ratio.low < 1.06 < chromium.ratio.high and chromium.ratio.told_apart
    assert (firefox.ratio.value, firefox.ratio.low, firefox.ratio.high) == (1, 1, 1)
    assert chromium.own_ms == 10 and firefox.own_ms == 12


def test_the_half_that_chooses_does_not_tell_the_cost() -> None:
    # By the even pairs B is far faster than the browser's own, by the odd ones slower.
    own = (1.0,) * 32
    other = tuple(0.5 if i % 2 == 0 else 1.2 for i in range(32))
    found = comparison(
        crossings=(
            Crossing("chromium", "mul", B, own, other),
            Crossing("firefox", "mul", A, **samples(1.5)),
        )
    )
    assert found.common[0].ratios["chromium"].value == pytest.approx(1.2)


def test_what_is_wrong_somewhere_is_no_common_kernel() -> None:
    bad = Crossing("chromium", "mul", B, why_not="wrong: 3 x the accepted error")
    slow = Crossing("firefox", "mul", A, **samples(9.0))
    assert comparison(crossings=(bad, slow)).common[0].settings == A
    short = Crossing("firefox", "mul", A, (1.0,), (1.0,))
    found = comparison(crossings=(bad, short))
    assert found.common[0].settings == ""
    assert "no winner runs in all of them" in as_text(found)
    assert found.costs[0].own_ms == 4, "only what has common settings counts"


def test_tables_say_where_browsers_differ() -> None:
    found = comparison()
    text = as_text(found)
    assert "of 2 tuned workloads 1 have different winners, and in 1 of them" in text
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [(r["browser"], r["settings"], r["common"]) for r in rows if r["workload"] == "mul"] == [
        ("chromium", A, ""), ("chromium", B, "yes"), ("firefox", A, ""), ("firefox", B, "yes"),
    ]  # fmt: skip
    slow = next(r for r in rows if r["browser"] == "firefox" and r["settings"] == A)
    assert float(slow["low"]) < 1.5 < float(slow["high"])
    assert json.loads(json.dumps(found.to_json()))["costs"][0]["browser"] == "chromium"


def test_browsers_take_turns_and_try_each_others_winners(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[tuple[str, str]] = []
    won = {"embedded": C, "chromium": A, "firefox": B}

    class Bench:
        def __init__(self, name: str) -> None:
            device = SimpleNamespace(user_agent=f"{name}/1")
            self.model, self.page = name, SimpleNamespace(connect=lambda: device)
            self.tuning = SimpleNamespace(start=lambda seconds: iter(()))

        def open_model(self, path: Path, tell: Callable[[str], None], feeds: Any) -> None:
            turns.append((self.model, "open"))
            tell("loading weights into the page")

    def within(browser: str, work: Callable[[Any], Any], /) -> Any:
        turns.append((browser, "in"))
        return work(Bench(browser))

    def crossed(model: str, browser: str, own: Any, others: Any, tell: Any) -> list[Crossing]:
        turns.append((browser, " ".join(others["mul"])))
        return [Crossing(browser, "mul", s, **samples(1.2)) for s in others["mul"]]

    monkeypatch.setattr(
        side_by_side, "winners", lambda model, name: [Winner(name, "mul", won[name], 1, 1.0)]
    )
    monkeypatch.setattr(side_by_side, "cross", crossed)
    told: list[str] = []
    names = ["embedded", "chromium", "firefox"]
    found = compare_browsers(within, names, Path("m"), 1, told.append)
    assert told[:3] == [
        "chromium: opening m", "chromium: loading weights into the page",
        "chromium: tuning for 1 s",
    ]  # fmt: skip
    assert all(words.partition(":")[0] in names for words in told)
    assert found.browsers == ("embedded", "chromium", "firefox")
    assert found.engines["firefox"] == "firefox/1"
    assert turns == [
        ("chromium", "in"), ("chromium", "open"), ("firefox", "in"), ("firefox", "open"),
        ("embedded", "in"), ("embedded", "open"), ("embedded", f"{A} {B}"),
        ("chromium", "in"), ("chromium", "open"), ("chromium", f"{B} {C}"),
        ("firefox", "in"), ("firefox", "open"), ("firefox", f"{A} {C}"),
    ]  # fmt: skip
    with pytest.raises(UserError, match="Fewer than two"):
        compare_browsers(within, ["firefox", "firefox"], Path("m"), 1, print)
