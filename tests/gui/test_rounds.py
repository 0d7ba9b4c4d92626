"""Rounds as columns: nothing is lost, little is drawn, and nothing is copied to append."""

from __future__ import annotations

import numpy as np
import pytest

from nnjit_studio.ui.dock.rates_plot import WHOLE
from nnjit_studio.ui.state.rounds import BY_ROUND, BY_SECONDS, RoundPoint, Rounds, thin
from nnjit_studio.ui.state.session import StudioSession
from nnjit_studio.ui.tuning import rounds
from nnjit_studio.ui.tuning.rounds import RoundsPanel
from nnjit_studio.ui.widgets.theme import LIGHT


def rounds_of(count: int) -> Rounds:
    made = Rounds()
    for i in range(count):
        rate = 0.0 if i % 10 == 3 else 10.0 + i % 7
        made.append(RoundPoint(i + 1, i / 4, f"c{i}", rate, 10.0 + min(i, 6)))
    return made


def test_rounds_read_like_a_list_of_points():
    rounds = rounds_of(200)
    assert len(rounds) == 200 and bool(rounds) and not Rounds()
    assert rounds[3] == RoundPoint(4, 0.75, "c3", 0.0, 13.0)
    assert rounds[-1] == list(rounds)[199]
    assert rounds == rounds_of(200) != rounds_of(199)
    with pytest.raises(IndexError):
        rounds[200]
    assert rounds.top == 16.0
    assert (rounds.last(BY_ROUND), rounds.last(BY_SECONDS)) == (200.0, 49.75)


def test_rounds_that_were_not_measured_have_no_dot():
    x, y = rounds_of(20).dots(BY_ROUND, 0, 100, 1000)
    assert len(x) == 18 and 4 not in x and y.min() > 0


def test_the_best_so_far_is_a_staircase_to_the_last_round():
    x, y = rounds_of(20).line(BY_ROUND, 0, 100, 1000)
    assert (x[0], y[0]) == (1.0, 10.0) and (x[-1], y[-1]) == (20.0, 16.0)
    assert (np.diff(y) >= 0).all() and len(x) == 15
    assert len(Rounds().line(BY_ROUND, 0, 1, 10)[0]) == 0


def test_appending_copies_rarely():
    rounds = rounds_of(100)
    before = rounds._columns["gflops"].view
    rounds.append(RoundPoint(101, 30.0, "c", 1.0, 16.0))
    assert np.shares_memory(before, rounds._columns["gflops"].view)


def test_of_many_points_few_are_drawn_and_every_peak_stays():
    x = np.arange(100_000.0)
    y = np.random.default_rng(1).random(100_000)
    y[[12_345, 77_777]] = 9.0, -9.0
    thin_x, thin_y = thin(x, y, 0, 1e6, 500)
    assert len(thin_x) <= 2000
    assert (thin_y == y[thin_x.astype(int)]).all() and (np.diff(thin_x) >= 0).all()
    assert {12_345.0, 77_777.0} <= set(thin_x)


def test_a_view_that_moves_shows_the_same_points():
    x = np.arange(100_000.0)
    y = np.random.default_rng(2).random(100_000)
    here, _ = thin(x, y, 10_000, 60_000, 500)
    there, _ = thin(x, y, 10_400, 60_400, 500)
    inner = (here > 11_000) & (here < 59_000)
    assert set(here[inner]) <= set(there)


def test_a_small_part_is_drawn_whole_with_a_neighbour_on_each_side():
    x = np.arange(100_000.0)
    kept, _ = thin(x, x, 500.5, 600.5, 500)
    assert kept[0] == 500.0 and kept[-1] == 601.0 and len(kept) == 102


def test_the_plot_draws_what_there_are_pixels_for(qtbot, workbench):
    session = StudioSession(workbench)
    panel = RoundsPanel(session, LIGHT)
    qtbot.addWidget(panel)
    panel.resize(600, 300)
    session.state.open(workbench.model)
    key = session.state.selected
    for point in rounds_of(20_000):
        session.state.workloads[key].rounds.append(point)
    panel.refresh(frozenset({"model", "rounds"}))
    dots, line = panel.items[key]
    assert 100 < len(dots.getData()[0]) <= WHOLE * panel._columns
    box = panel.item.getViewBox()
    assert box.viewRange()[0][0] < 1 and box.viewRange()[0][1] > 20_000
    box.setXRange(5000, 5050, padding=0)
    panel._follow_view()
    seen = dots.getData()[0]
    assert seen.min() < 5000 < 5050 < seen.max() and len(seen) < 60
    assert line.getData()[1][-1] == 16.0
    panel.scope.setCurrentText("whole model")
    assert panel.items == {}, "no round said what the model took"
    assert panel.table()[1] == []


def test_rounds_are_counted_in_whole_numbers(qtbot, workbench):
    panel = RoundsPanel(StudioSession(workbench), LIGHT)
    qtbot.addWidget(panel)
    axis = panel.item.getAxis("bottom")
    assert min(gap for gap, _ in axis.tickSpacing(0, 2, 400)) == 1.0
    panel.axis.setCurrentText("by seconds")
    assert min(gap for gap, _ in axis.tickSpacing(0, 2, 400)) < 1.0


def test_a_long_name_in_the_legend_is_cut_and_its_tooltip_has_all(qtbot, workbench, monkeypatch):
    """In the column it ran out of the plot."""
    long = "Attention 12 heads, 128 queries by 128 keys, width 32, +scale"
    monkeypatch.setattr(rounds, "words_of", lambda key: long)
    session = StudioSession(workbench)
    panel = RoundsPanel(session, LIGHT)
    qtbot.addWidget(panel)
    session.state.open(workbench.model)
    session.state.workloads[session.state.selected].rounds.append(next(iter(rounds_of(1))))
    panel.refresh(frozenset({"model", "rounds"}))
    label = panel.legend.items[-1][1]
    assert label.text.endswith("…") and long.startswith(label.text[:-1])
    assert label.toolTip().startswith(long)
