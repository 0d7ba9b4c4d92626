"""A check that cannot fail is none: one fault is planted under each, and found."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import on_kernels
import programs
import pytest
from outcomes import Campaign

sys.path.append(str(Path(__file__).resolve().parents[1] / "end2end"))
import endurance
import long_run
import tiny


def test_a_bench_that_does_not_clear_outputs_accepts_what_skips() -> None:
    assert on_kernels.skipped([2, 9], planted=True) == 2
    assert on_kernels.skipped([2, 9]) == 0


def test_a_ceiling_with_a_wrong_peak_accepts_too_fast_and_refuses_honest_kernels() -> None:
    assert on_kernels.judged(5.0, probed=1.0) == "impossible"
    assert on_kernels.judged(5.0, probed=1.0, pulse=lambda: 10.0) == "won"
    assert on_kernels.judged(0.9, probed=0.2) == "won"
    assert on_kernels.judged(0.9, probed=0.2, pulse=lambda: 0.2) == "impossible"


def campaign(tmp_path: Path, size: int) -> Campaign:
    return Campaign(random.Random(1), size, 60, tmp_path)


@pytest.mark.parametrize(("survivors", "rejected", "holds"), [(2, 0, True), (3, 0, False),
                                                              (0, 1, False)])  # fmt: skip
def test_mutants_that_escape(survivors: int, rejected: int, holds: bool, tmp_path: Path) -> None:
    run = campaign(tmp_path, 1000)
    run.done = 1000
    found = {"survivors": [{}] * survivors, "correct": 9, "rejected": [{}] * rejected,
             "kinds": {}, "equivalent": 0}  # fmt: skip
    assert programs.escaped(run, found).holds is holds


@pytest.mark.parametrize(("false", "undecided", "holds"), [(1, 0, True), (2, 0, False),
                                                           (0, 100, False)])  # fmt: skip
def test_false_improvements(false: int, undecided: int, holds: bool, tmp_path: Path) -> None:
    run = campaign(tmp_path, 100)
    run.done = 100
    rows = [{"false_swaps": false, "undecided": undecided}]
    assert programs.not_improved(run, rows).holds is holds


class Page:
    """Answers by its last kernel; every so many swaps it forgets one."""

    def __init__(self, forgets: int) -> None:
        self.forgets, self.swaps, self.op = forgets, 0, "add"

    def register(self, kernels: list[Any]) -> None:
        self.swaps += 1
        if self.swaps % self.forgets:
            self.op = next(op for op in ("add", "sub", "mul")
                           if tiny.kernel(op).data == kernels[0].data[:-12])  # fmt: skip

    def infer(self, feeds: dict[str, Any]) -> Any:
        x, w = feeds["x"], np.arange(6, dtype=np.float32).reshape(2, 3) * 10
        return SimpleNamespace(outputs={"y": {"add": x + w, "sub": x - w, "mul": x * w}[self.op]})


@pytest.mark.parametrize(("forgets", "leak_mib", "holds"), [(10**9, 0, True), (50, 0, False),
                                                            (10**9, 1, False)])  # fmt: skip
def test_swaps(forgets: int, leak_mib: int, holds: bool, tmp_path: Path) -> None:
    sizes = itertools.count(100, leak_mib)
    outcome = programs.swapped(campaign(tmp_path, 100), Page(forgets), lambda: next(sizes))
    assert outcome.holds is holds, outcome.figure


@pytest.mark.parametrize(("slope", "uncaught", "holds"), [(0.5, (), True), (3.0, (), False),
                                                          (0.5, ("x",), False)])  # fmt: skip
def test_a_leak_of_megabytes_an_hour(slope: float, uncaught: tuple[str, ...], holds: bool) -> None:
    rows = [{"hours": h / 60, "own_mib": 500 + slope * h / 60, "others_mib": 700.0}
            for h in range(1, 120)]  # fmt: skip
    assert long_run.told(rows, 1.0, 5, uncaught)[1] is holds
    assert not long_run.told(rows, 1.0, 0, uncaught)[1]  # nothing was tuned


def test_a_start_that_leaves_something_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "nnjit"
    fake.write_text('#!/bin/sh\nsleep 30 > /dev/null 2>&1 &\ntouch "$TMPDIR/left"\nexit 3\n')
    fake.chmod(0o755)
    monkeypatch.setattr(endurance.sys, "executable", str(tmp_path / "python"))
    for name in ("home", "scratch"):
        (tmp_path / name).mkdir()
    found = " ".join(endurance.one_start(0, tmp_path / "home", tmp_path / "scratch"))
    assert all(word in found for word in ("exit code 3", "processes are left", "temporary files"))


@pytest.mark.parametrize(("p99", "most", "pans", "holds"), [
    (12.0, 80.0, 600, True), (40.0, 80.0, 600, False), (12.0, 200.0, 600, False),
    (12.0, 80.0, 100, False)])  # fmt: skip
def test_a_window_that_stands_still(
    p99: float, most: float, pans: int, holds: bool, tmp_path: Path
) -> None:
    text = (f"9 rounds in 20 s, {pans} pan steps; load average 1.0.\n"
            f"| tuning | 900 | 1.0 | {p99} | {most} | 5.0 | 9.0 |\n")  # fmt: skip
    assert programs.responsive(campaign(tmp_path, 1), text).holds is holds
    assert not programs.responsive(campaign(tmp_path, 1), "it crashed").holds


@pytest.mark.parametrize(("first", "window", "holds"), [(30.0, 2.0, True), (61.0, 2.0, False),
                                                        (30.0, 3.5, False)])  # fmt: skip
def test_a_slow_start(first: float, window: float, holds: bool, tmp_path: Path) -> None:
    times = [{"window": window, "graph": 4.0}, {"first swap": first}]
    assert programs.soon(campaign(tmp_path, 1), times).holds is holds
    assert not programs.soon(campaign(tmp_path, 1), times[:1]).holds
