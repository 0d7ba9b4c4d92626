"""Names and units of the graph, its marks and its minimap."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gui_window import wait_job
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest

from nnjit_studio.model.readable import words_of
from nnjit_studio.ui.graph.facts import COLOUR_BY, Facts
from nnjit_studio.ui.graph.legend import Legend, colour_boxes
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.theme import LIGHT

WORDS = {
    "conv2d:1x24x208x208x48x3x3x2x1x1x1:f32+bias+silu#0a": "Conv 3x3 24->48, 208x208, stride 2, "
    "+bias +SiLU",
    "conv2d:1x129x1x4x128x1x3x1x0x1x1:f32+bias+relu": "Conv 1x3 129->128, 1x4, +bias +ReLU",
    "conv2d:1x32x112x112x32x3x3x1x1x1x32:f32": "Depthwise conv 3x3 32, 112x112",
    "matmul:128x384x1536:f32+bias+gelu": "MatMul 128x384 by 384x1536, +bias +GELU",
    "batch_matmul:12x128x32x128:f32": "MatMul 12 times 128x32 by 32x128",
    "attention:12x128x64x32:f32": "Attention 12 heads, 128 queries by 64 keys, width 32",
    "tir_sqrt_maximum_minimum_divide:1x128:f32": "Square root, maximum, minimum, divide 1x128",
    "concatenate:4:f32": "Join 4",
    "gate_estimate:4:f32": "Gate, estimate 4",
    "of another form": "of another form",
}


def test_the_legend_tells_a_frame_from_the_hottest_colour(qtbot):
    """It said "red edge", and the hottest boxes are red."""
    legend = Legend(LIGHT)
    qtbot.addWidget(legend)
    legend.show_scale(COLOUR_BY[0], (0.0, 16.6), 1)
    assert legend.words.endswith("framed in red: 1 avoidable")


@pytest.mark.parametrize(("key", "words"), WORDS.items(), ids=list(WORDS.values()))
def test_workloads_are_named_in_words(key, words):
    assert str(words_of(key)) == words


@pytest.mark.parametrize(
    ("ms", "words"),
    [(None, text.NONE), (0.0004, "0.400 µs"), (0.042, "42.0 µs"), (0.0999, "99.9 µs"),
     (0.1, "0.10 ms"), (3.0512, "3.05 ms"), (14.635, "14.6 ms"), (527.2, "527 ms"),
     (20_980, "21.0 s"), (-0.05, "-50.0 µs")],
)  # fmt: skip
def test_times_have_three_digits_and_a_unit_that_fits(ms, words):
    assert text.time(ms) == words


def test_one_node_is_no_plural():
    assert (text.nodes(1), text.nodes(2)) == ("1 node", "2 nodes")


@pytest.fixture
def panel(qtbot, window, model_file):
    wait_job(qtbot, window, "open", lambda: window.open_model(model_file))
    wait_job(qtbot, window, "profile", lambda: window.actions_by_id["profile"].trigger() is None)
    window.docks.show("graph")
    return window.graph


def boxes(panel):
    return [box for box in panel.view.boxes.values() if box.node]


def test_boxes_are_named_in_words_and_tell_the_key_in_their_tip(panel):
    product = next(b for b in boxes(panel) if b.node.workload.startswith("matmul"))
    assert product.title.startswith("MatMul") and " by " in product.line
    tip = panel.tip(product)
    assert str(words_of(product.node.workload)) in tip
    assert text.short_key(product.node.workload) in tip


def test_colours_stay_when_a_session_begins(panel):
    fills = [box.fill for box in boxes(panel)]
    assert all(fills)
    state = panel._session.state
    state.node_ms = {}
    panel.refresh(frozenset({"graph"}))
    panel._learn()
    assert [box.fill for box in boxes(panel)] == fills and "neutral" not in panel.legend.words


def test_red_is_what_costs_one_percent_or_more(panel):
    cheap, dear = boxes(panel)[:2]
    warnings = {cheap.node.workload: "Only moves data.", dear.node.workload: "No template."}
    ms = {box.node.name: 50.0 for box in boxes(panel)} | {cheap.node.name: 0.1}
    facts = replace(Facts(), ms=ms)
    _, marked = colour_boxes([(panel.view, facts)], COLOUR_BY[0], warnings)
    assert dear.warning and not cheap.warning
    assert marked == sum(bool(box.warning) for box in boxes(panel)) >= 1
    _, marked = colour_boxes([(panel.view, Facts())], COLOUR_BY[0], warnings)
    assert not marked, "nothing is known of its time"


def test_a_double_click_opens_the_kernel(qtbot, window, panel):
    box = next(b for b in boxes(panel) if b.node.workload.startswith("matmul"))
    panel.view.look_at(box)
    place = panel.view.mapFromScene(box.pos())
    QTest.mouseDClick(panel.view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    qtbot.waitUntil(lambda: window.docks["kernel"].seen)
    qtbot.waitUntil(lambda: window.kernel.kernel is not None)
    assert window.kernel.kernel.workload.key == box.node.workload


def test_a_small_view_has_a_small_minimap(qtbot, panel):
    view, minimap = panel.view, panel.view.minimap
    panel.resize(420, 260)
    view.scale(3, 3)
    view.panned.emit()
    qtbot.waitUntil(minimap.isVisible)
    room = view.viewport().size()
    assert minimap.height() <= max(30, 0.41 * room.height()) < minimap.y() + minimap.height()
    assert minimap.width() <= max(30, 0.41 * room.width())


def test_the_minimap_moves_the_view_and_hides_when_all_is_in_sight(qtbot, panel):
    view, minimap = panel.view, panel.view.minimap
    view.fit()
    qtbot.waitUntil(lambda: not minimap.isVisible())
    view.resetTransform()
    view.scale(3, 3)
    view.panned.emit()
    qtbot.waitUntil(minimap.isVisible)
    assert view.viewport().rect().contains(minimap.geometry())
    for corner in (minimap.rect().topLeft() + QPoint(2, 2), minimap.rect().bottomRight()):
        QTest.mouseClick(minimap, Qt.MouseButton.LeftButton, pos=corner)
        seen = view.mapToScene(view.viewport().rect()).boundingRect()
        scale = view.scene().sceneRect().height() / minimap.height()
        wanted = view.scene().sceneRect().top() + corner.y() * scale
        assert seen.contains(QPointF(seen.center().x(), wanted))
