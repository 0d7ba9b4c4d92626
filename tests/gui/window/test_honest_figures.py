"""What header, card and table say of a session: nothing that pairs do not prove."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from test_window import open_it, tune_it

from nnjit_studio.records.estimate import Estimate
from nnjit_studio.records.gain import TOO_BUSY, ModelGain
from nnjit_studio.records.outcomes import NOT_TOLD_APART, SLOWER
from nnjit_studio.tuner import events as ev
from nnjit_studio.tuner.whole.machine import busy_text
from nnjit_studio.ui.state.workload import CandidateRow
from nnjit_studio.ui.tuning.space import COLUMNS, SPEEDUP_COLUMN

WARNING = "machine busy: figures are rough (31% of its usual rate)"


def show(window, *events):
    window.session.state.reduce(events)
    window.session.refreshed.emit(frozenset({"phase", "latency", "space", "now"}))


@pytest.fixture
def tuned(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    tune_it(qtbot, window)
    return window


FIGURES = [
    (ModelGain("faster", 1.25, 1.21, 1.29, 24, 0.97), "1.25×", "1.21 to 1.29", "good"),  # noqa: RUF001
    (ModelGain(SLOWER, 0.9, 0.86, 0.94, 24, 0.97), "0.90×", "0.86 to 0.94", "bad"),  # noqa: RUF001
    (ModelGain(NOT_TOLD_APART, 0.97, 0.6, 1.3, 24, 0.95), "–", NOT_TOLD_APART, ""),  # noqa: RUF001
    (ModelGain(TOO_BUSY, pairs=24, machine=0.31), "–", TOO_BUSY, ""),  # noqa: RUF001
    (ModelGain("unchanged"), "–", "unchanged", ""),  # noqa: RUF001
]
"""A gain, its number, the note and the tone."""


def test_the_header_shows_a_ratio_only_where_pairs_prove_one(tuned):
    for gain, number, note, tone in FIGURES:
        show(tuned, replace(tuned.session.state.summary, gain=gain))
        figure = tuned.header.speedup
        assert (figure.number.text(), figure.note) == (number, note)
        assert figure.number.objectName() == tone
        dash = number == "–"  # noqa: RUF001
        assert figure._label.text() == (f"speed-up: {note}" if dash else note), "a dash has a name"
        assert (tuned.header.before.number.text() == "–") != gain.told_apart  # noqa: RUF001


def test_the_time_of_now_says_when_it_was_measured(tuned, monkeypatch):
    tip = tuned.header.now.toolTip()
    assert re.search(r"\nmedian of \d+ runs, \d\d:\d\d:\d\d$", tip)
    changed = []
    monkeypatch.setattr(tuned.header.now, "setToolTip", changed.append)
    tuned.header.show_state()
    assert tuned.header.now.toolTip() == tip and not changed, "each change costs milliseconds"


def test_the_badge_says_that_the_machine_is_busy(tuned):
    badges = lambda: [short for short, _ in tuned.header._badges._shown]  # noqa: E731
    assert "machine busy: figures are rough" not in badges()
    show(tuned, replace(tuned.session.state.summary, warning=WARNING))
    assert "machine busy: figures are rough" in badges()
    card = tuned.card
    assert card.warning.text() == "machine busy" and card.warning.toolTip() == WARNING
    assert "peak" not in card.facts.text(), "a share of the peak of a quiet machine"


def test_a_profile_of_a_busy_machine_says_so_until_there_is_a_verdict(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    state, header = window.session.state, window.header
    state.take_estimate(Estimate(1.02, 1.0, 1.03, 20), busy_text(0.64))
    header.show_state()
    (badge,) = [(short, tip) for short, tip in header._badges._shown if "busy" in short]
    assert "64% of its usual rate" in badge[1] and not header.figures.isHidden()
    header.leave_figures_to(SimpleNamespace(ours=SimpleNamespace(ms=1.4)))
    assert not any("busy" in short for short, _ in header._badges._shown), "it says that itself"
    header.leave_figures_to(None)
    state.take_estimate(Estimate(1.02, 1.0, 1.03, 20), busy_text(0.97))
    header.show_state()
    assert not any("busy" in short for short, _ in header._badges._shown)


def test_a_stopped_session_keeps_its_bar_where_it_was(tuned):
    state = tuned.session.state
    state.tried = lambda: (128, 217)
    show(tuned, replace(state.summary, reason="cancelled"))
    assert tuned.header.progress.value() == 590
    assert tuned.card.title.text() == "Tuning has ended: stopped"
    show(tuned, replace(state.summary, reason="converged"))
    assert tuned.header.progress.value() == 1000


def test_a_session_that_was_stopped_at_its_start_has_no_figures(tuned):
    """Neither a dash, nor "unchanged", nor what tuned kernels do."""
    summary = replace(tuned.session.state.summary, reason="cancelled", outcomes={}, kept=0,
                      gain=ModelGain("unchanged"))  # fmt: skip
    show(tuned, ev.SessionStarted(0.0, "m", (), {}), summary)
    assert tuned.header.figures.isHidden()
    card = tuned.card
    assert card.title.text() == "Tuning was stopped before any candidate was measured"
    assert card.worth.text() == "" and card.facts.isHidden()


def test_a_session_ends_in_a_card(tuned):
    card = tuned.card
    assert not card.isHidden()
    assert card.worth.text().endswith("1.25× (1.24 to 1.26, 12 pairs)")  # noqa: RUF001
    assert card.facts.text() == (
        "16 tried: 2 kept, 2 faster in a duel, 9 slower, 5 not told apart. "
        "The tuned kernels run at 84% of this machine's peak."
    )
    assert [b.text() for b in card.buttons] == ["Make it faster", "Export", "Compare", "Report"]
    assert all(b.isEnabled() for b in card.buttons)
    show(tuned, ev.SessionStarted(0.0, "m", (), {}))
    assert card.isHidden()


@pytest.mark.parametrize("width", [1280, 1600])
def test_the_card_of_a_long_session_is_read_whole(qtbot, tuned, width):
    """Both halves of its second line were cut at 1280 pixels."""
    told = {"won": 2, "slower": 9, "not told apart": 105, "failed": 1}
    ms = {"before": 1.0, "after": 1.0}
    work = ev.WorkloadSummary("matmul:8x16x16:f32#a", 1, 0, 217, ms, ms, "default", 0.9)
    tuned.session.state.tried = lambda: (117, 772)
    tuned.resize(width, 720)
    gain = ModelGain(NOT_TOLD_APART, 0.9, 0.65, 1.18, 24)
    ended = replace(tuned.session.state.summary, reason="cancelled", outcomes=told, of_peak=0.44)
    show(tuned, replace(ended, gain=gain, workloads=(work,)))
    card = tuned.card
    assert "at most 50% of the time is left" in card.facts.text()
    qtbot.waitUntil(lambda: card.isVisible() and card.facts.width() > 200)
    qtbot.wait(20)
    needed = card.facts.heightForWidth(card.facts.width())
    assert card.facts.height() >= needed
    assert card.title.shown() == card.title.text() and card.worth.shown() == card.worth.text()
    assert card.height() <= 70


def test_a_stopped_session_is_resumed_from_its_card_and_from_the_menu(qtbot, tuned, workbench):
    """The card had no such button, and the menu said that no tuning waits."""
    state, card = tuned.session.state, tuned.card
    for reason, tried, offered in (
        ("cancelled", 117, True), ("time", 117, True), ("exhausted", 772, False),
        ("converged", 117, False),
    ):  # fmt: skip
        state.tried = lambda tried=tried: (tried, 772)
        show(tuned, replace(state.summary, reason=reason))
        assert card.resume.isVisibleTo(card) == offered, reason
    show(tuned, replace(state.summary, reason="cancelled"))
    for begin in (card.resume.click, tuned.actions_by_id["resume_last"].trigger):
        sessions = len(workbench.tuned_seconds)
        with qtbot.waitSignal(tuned.session.done, check_params_cb=lambda job, _: job == "tune"):
            begin()
        assert len(workbench.tuned_seconds) == sessions + 1


def test_a_card_of_a_busy_session_shows_no_ratio(tuned):
    gain = ModelGain(TOO_BUSY, pairs=24, machine=0.31)
    show(tuned, replace(tuned.session.state.summary, gain=gain, warning=WARNING))
    text = tuned.card.worth.text()
    assert text == f"Time of an inference: {TOO_BUSY}", "one time of now stands in the header"


def test_the_table_is_in_the_order_of_speed_ups_of_duels(tuned):
    slow, fast = (f"x0=8,y0=6,r0={r0},x1=8,y1=6,r1=384,order=nm,pack=1" for r0 in (4, 2))
    rows = [
        CandidateRow(slow, "slower", gflops=30.9, speedup=0.7),
        CandidateRow(fast, "faster", gflops=17.5, speedup=1.3),
    ]
    tuned.space.model.set_rows(rows)
    assert COLUMNS[SPEEDUP_COLUMN].title == "speed-up"
    assert tuned.space.model.shown[0].state == "faster"


def test_one_outlier_does_not_flatten_the_latency(tuned):
    tuned.session.state.latency = [(float(i), 1.0 if i != 7 else 400.0) for i in range(20)]
    tuned.latency.redraw()
    assert tuned.latency.item.getViewBox().viewRange()[1][1] < 10


def test_a_card_of_a_busy_session_does_not_say_that_nothing_is_left(tuned):
    told = {"slower": 32, "not told apart": 147}
    show(tuned, replace(tuned.session.state.summary, reason="converged", outcomes=told,
                        undecided=140))  # fmt: skip
    said = "Noise hides whether 140 of 179 candidates are faster: tune again"
    assert tuned.card.title.text() == said
    show(tuned, replace(tuned.session.state.summary, undecided=0, warning=WARNING))
    assert tuned.card.title.text().startswith("No candidate was proven faster while")


def test_where_nothing_is_left_the_card_says_so(tuned):
    ms = {"before": 1.0, "after": 1.0}
    work = ev.WorkloadSummary("matmul:8x16x16:f32#a", 1, 0, 217, ms, ms, "default", 1.0)
    show(tuned, replace(tuned.session.state.summary, reason="converged", outcomes={},
                        workloads=(work,)))  # fmt: skip
    card = tuned.card
    assert card.title.text() == "Nothing is left to gain: the best of 217 known ways is in use"
    assert card.facts.text().startswith("The tuned kernels run at 84% of this machine's peak;")
