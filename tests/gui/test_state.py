"""The session's state, without any window."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from gui_fakes import GAIN, candidates, encoder_model, play, small_model

from nnjit_studio.tuner import events as ev
from nnjit_studio.ui.graph.layered_layout import draw, layers_of
from nnjit_studio.ui.state.jobs import JobProblem
from nnjit_studio.ui.state.state import VIEWS, SessionState
from nnjit_studio.ui.widgets import text


@pytest.fixture
def state():
    made = SessionState()
    made.open(small_model())
    return made


def first(state):
    return state.by_share()[0]


def test_opening_selects_the_heaviest_workload_and_draws_everything(state):
    assert state.selected == first(state).workload.key
    assert state.take_changes() == VIEWS
    assert state.take_changes() == frozenset()


def test_a_whole_session_is_reduced(state):
    script = list(play(state.model))
    state.reduce(script)
    rounds = [e for e in script if isinstance(e, ev.RoundDone)]
    timings = [e for e in script if isinstance(e, ev.ModelTimed)]
    assert sum(len(w.rounds) for w in state.workloads.values()) == len(rounds)
    assert [ms for _, ms in state.latency][:-1] == [e.ms for e in timings]
    assert state.before_ms == pytest.approx(state.summary.model_ms["before"])
    assert state.estimate.ms == pytest.approx(state.summary.model_ms["after"])
    assert state.gain.ratio == pytest.approx(GAIN) and state.gain.outcome == "faster"
    assert state.phase.startswith("Done") and state.summary is script[-1]


def test_times_of_different_moments_are_no_gain(state):
    """A machine that gets three times slower while nothing is swapped in."""
    timed = [ev.ModelTimed(t, ms, (ms,)) for t, ms in enumerate((200.0, 210.0, 644.0))]
    state.reduce(timed)
    assert state.before_ms is None and state.gain is None
    assert state.estimate.ms == 210.0, "the median, not the last inference"
    state.reduce([ev.MachineSeen(3.0, 0.31, "machine busy: figures are rough")])
    assert state.warning


def test_runs_of_replaced_kernels_do_not_count(state):
    key = first(state).workload.key
    state.reduce([ev.ModelTimed(0.1, 9.0, (9.0,) * 50)])
    state.reduce([ev.Swapped(0.2, key, candidates()[0], 1.0, 2.0), ev.ModelTimed(0.3, 4.0, (4.0,))])
    assert (state.estimate.ms, state.estimate.count) == (4.0, 1)


def test_shares_of_model_time_add_up_to_one(state):
    state.reduce(play(state.model))
    assert sum(w.share for w in state.workloads.values()) == pytest.approx(1.0)
    last = [e for e in play(state.model) if isinstance(e, ev.ModelTimed)][-1]
    assert list(state.node_ms.values()) == list(last.steps_ms)


def test_a_profile_of_another_length_is_refused_aloud(state, caplog):
    state.reduce([ev.ModelTimed(1.0, 9.0, (9.0,), (1.0, 2.0))])
    assert state.node_ms == {}
    assert "The profile has 2 steps" in caplog.text


def test_a_candidate_goes_through_its_states(state):
    key = first(state).workload.key
    a, b = candidates()[:2]
    show = lambda: {r.settings: r.state for r in state.workloads[key].rows()}  # noqa: E731
    state.reduce([ev.SpaceBuilt(0.1, key, (a, b), ("fits", "fits"), 1000, 1)])
    assert show() == {a: "not tried", b: "not tried"}
    assert state.tried() == (0, 2)
    state.reduce([ev.Compiled(0.2, key, a, 4.0, 900)])
    assert show()[a] == "measuring"
    state.reduce([ev.Measured(0.3, key, a, "won", "faster", 30.0, 0.5, (0.5,), 1.5, 1.4, 1.6)])
    state.reduce([ev.Swapped(0.3, key, a, 20.0, 30.0)])
    assert show()[a] == "incumbent"
    state.reduce([ev.Compiled(0.4, key, b, 4.0, 0, error="no registers left")])
    row = state.workloads[key].rows()[1]
    assert (row.state, row.verdict, row.gflops) == ("invalid", "no registers left", None)
    assert state.tried() == (2, 2)


def test_default_kernels_are_no_candidates(state):
    workload = first(state).workload.key
    before = state.tried()
    state.reduce([ev.Compiled(0.1, workload, "default", 1.0, 500)])
    assert state.tried() == before


def test_what_the_database_knows_is_shown(state):
    key = first(state).workload.key
    a, b = candidates()[:2]
    known = ev.KnownCandidate(a, "slower", 12.0, 2.5)
    state.reduce([ev.SpaceBuilt(0.1, key, (a, b), ("fits", "fits"), 1000, 1, (known,))])
    row, other = state.workloads[key].rows()
    assert (row.state, row.gflops, row.ms, row.verdict) == (
        "slower", 12.0, 2.5, "known from the database",
    )  # fmt: skip
    assert other.state == "not tried"
    assert state.tried() == (1, 2)


def test_what_was_not_measured_at_the_end_was_not_tried(state):
    key = first(state).workload.key
    state.reduce([ev.Compiled(0.2, key, candidates()[0], 4.0, 900)])
    state.reduce([e for e in play(state.model) if isinstance(e, ev.Finished)])
    assert [row.state for row in state.workloads[key].rows()] == ["not tried"]


@pytest.mark.parametrize("listed", [True, False])
def test_a_swap_from_the_database_has_its_speed(state, listed):
    key, settings = first(state).workload.key, candidates()[3]
    if listed:
        state.reduce([ev.SpaceBuilt(0.1, key, (settings,), ("fits",), 1000, 1)])
    state.reduce([ev.Swapped(0.1, key, settings, 10.0, 30.0, from_database=True)])
    (row,) = state.workloads[key].rows()
    assert (row.state, row.gflops) == ("incumbent", 30.0)
    assert (row.reason, row.verdict) == (
        "fits" if listed else "known before", "known from the database",
    )  # fmt: skip


def test_events_may_name_a_workload_without_its_fingerprint(state):
    w = first(state).workload
    state.reduce([ev.RoundDone(1.0, w.name, 1, "default", 5.0, 5.0, "default", 0)])
    assert len(state.workloads[w.key].rounds) == 1


def test_an_unknown_workload_is_logged_not_swallowed(state, caplog):
    state.reduce([ev.RoundDone(1.0, "matmul:1x1x1:f32", 1, "default", 5.0, 5.0, "default", 0)])
    assert "does not have" in caplog.text


def test_a_new_session_forgets_the_old_one_but_keeps_the_selection(state):
    state.reduce(play(state.model))
    key = state.by_share()[-1].workload.key
    state.select(key)
    state.reduce([ev.SessionStarted(0.0, "tiny", (), {})])
    assert state.latency == [] and state.selected == key
    assert not any(w.rounds or w.candidates for w in state.workloads.values())


@pytest.mark.parametrize(
    ("value", "shown"), [(7, "7"), (12345, "12,345"), (1_207_959_552, "1.2e9"), (2e12, "2.0e12")]
)
def test_counts(value, shown):
    assert text.count(value) == shown


def test_numbers_without_a_value_are_a_dash():
    assert text.fixed(None, 2) == text.fixed(float("nan"), 2) == text.latency(None) == text.NONE
    assert text.fixed(1234.5678, 1) == "1,234.6" and text.elapsed(723.9) == "12:03"


def edges_of(model):
    maker = {o: n.name for n in model.graph.nodes for o in n.outputs}
    return [(maker[i], n.name) for n in model.graph.nodes for i in n.inputs if i in maker]


def test_every_edge_of_the_drawing_goes_down():
    model = encoder_model("m.onnx")
    nodes = [n.name for n in model.graph.nodes]
    layer = layers_of(nodes, edges_of(model))
    assert all(layer[a] < layer[b] for a, b in edges_of(model))
    assert min(layer.values()) == 0


def test_no_two_boxes_of_the_drawing_overlap_and_routes_join_their_ends():
    model = encoder_model("m.onnx")
    edges = list(dict.fromkeys(edges_of(model)))
    drawing = draw({n.name: 100.0 for n in model.graph.nodes}, edges, 10.0, 50.0)
    places = sorted((y, x) for x, y in drawing.places.values())
    for (y0, x0), (y1, x1) in pairwise(places):
        assert y0 < y1 or x1 - x0 >= 110.0 - 1e-6
    for (a, b), route in drawing.routes.items():
        assert (route[0], route[-1]) == (drawing.places[a], drawing.places[b])


def test_a_graph_out_of_order_is_refused():
    with pytest.raises(ValueError, match="against the order"):
        layers_of(["a", "b"], [("b", "a")])


def test_an_empty_graph_draws_nothing():
    assert draw({}, [], 1.0, 1.0).places == {}


def test_state_and_drawing_know_no_qt():
    code = (
        "import sys, nnjit_studio.ui.state.state, nnjit_studio.ui.graph.layered_layout;"
        "import nnjit_studio.ui.widgets.text;"
        "print(any(name.startswith('PySide6') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize(
    ("said", "told"), [("\nno room left\nat 7", "no room left"), ("\n", "ValueError")]
)
def test_an_unexpected_error_is_told_by_its_first_words(said, told):
    assert f"went wrong: {told}. " in str(JobProblem.of("open", ValueError(said)))


def test_a_file_that_is_gone_is_no_bug_to_report(tmp_path):
    with pytest.raises(OSError) as gone:
        (tmp_path / "m.onnx").stat()
    problem = JobProblem.of("compare", gone.value)
    assert problem.error == "m.onnx cannot be used: No such file or directory."
    assert problem.kind == "user"
