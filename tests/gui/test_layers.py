"""The list of layers beside the graph: totals, what is worth red, and the way to a layer."""

import pytest
from gui_fakes import FakeWorkbench
from gui_window import wait_job
from test_graph_view import layered_model

from nnjit_studio.ui.graph.facts import Facts
from nnjit_studio.ui.graph.groups import Groups
from nnjit_studio.ui.graph.layers import _tone, contents_of

LAYERS = ["encoder", "encoder/layer.0", "encoder/layer.1", "encoder/layer.2"]


@pytest.fixture
def workbench():
    bench = FakeWorkbench(layered_model())
    yield bench
    bench.release.set()


def timed(ms, warnings=None):
    groups = Groups(layered_model().graph)
    return [each.timed(Facts(ms=ms), warnings or {}) for each in contents_of(groups)]


def test_a_layer_has_the_totals_of_its_steps():
    names = [node.name for node in layered_model().graph.nodes]
    layers = timed(dict.fromkeys(names, 2.0))
    assert [layer.group for layer in layers] == LAYERS
    assert [layer.ms for layer in layers] == [12.0, 4.0, 4.0, 4.0]
    assert layers[1].share == pytest.approx(100 * 2 / len(names))
    assert layers[0].operators == "3 MatMul, 3 Add"
    assert timed({})[0].ms is None and timed({})[0].share is None


def test_red_is_only_what_costs_a_percent_or_more():
    graph = layered_model().graph
    add = next(n for n in graph.nodes if n.name == "/encoder/layer.1/Add")
    ms = {node.name: 1.0 for node in graph.nodes}
    named = {layer.group: _tone(layer) for layer in timed(ms, {add.workload: "avoidable"})}
    assert named["encoder/layer.1"] == "bad"
    cheap = ms | {n.name: 0.001 for n in graph.nodes if n.workload == add.workload}
    assert not any(_tone(layer) for layer in timed(cheap, {add.workload: "avoidable"}))


def test_a_click_leads_to_the_layer_open_or_closed(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    panel = window.graph
    assert [row.group for row in panel.layers.model.rows] == LAYERS
    assert panel.layers.model.index(1, 0).data().strip() == "layer.0"
    panel.layers.view.selectRow(2)
    lit, box = panel.view.canvas.lit, panel.view.boxes["/encoder/layer.1/Add"]
    assert lit is not None and lit.contains(box.rect) and panel.view.current_box is None
    panel.folding.close_all()
    panel.layers.view.selectRow(1)
    assert not panel.folding.hides("/Transpose") and "encoder" not in panel.folding.closed
    assert panel.view.current_box.unit.group == "encoder/layer.0"
    assert panel.tabs.currentWidget() is panel.layers, "the list stays"
    panel.go_to("/Transpose")
    assert panel.tabs.currentWidget() is panel.details and panel.view.canvas.lit is None


def test_times_follow_the_run_that_is_shown(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "profile", lambda: window.actions_by_id["profile"].trigger() is None)
    layers = window.graph.layers.model.rows
    assert layers[0].ms > layers[1].ms > 0 and layers[0].share < 100
