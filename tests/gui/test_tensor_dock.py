"""The tensor viewer: figures, a slice with index fields, the reference, copy and .npy."""

from __future__ import annotations

import numpy as np
import pytest
from gui_window import wait_job
from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QApplication
from test_window import open_it

from nnjit_studio.ui.tensors.dock import DIFFERENCE, EMPTY, REFERENCE
from nnjit_studio.ui.tensors.slices import figures_of, slice_of, thinned


@pytest.fixture
def fetched(qtbot, window, model_file):
    open_it(qtbot, window, model_file)
    window.session.state.node = "n2"
    wait_job(qtbot, window, "tensor", lambda: window.actions_by_id["tensor"].trigger() is None)
    return window.tensors


def test_the_selected_node_s_tensor_is_fetched_with_its_reference(fetched, window):
    name = next(n for n in window.session.state.model.graph.nodes if n.name == "n2").outputs[0]
    assert fetched.found.name == fetched.names.currentText() == name
    assert fetched.caption.text() == f"{name}: 2x3x4 float32, of step n2"
    assert "mean 11.5" in fetched.figures.text() and "1 NaN" not in fetched.figures.text()
    assert "Largest error" in fetched.compared.text()
    fetched.heatmap.resize(200, 180)
    assert fetched.heatmap.value_at(QPointF(1, 1)) == "[0, 0]  0"
    fetched.heatmap.grab()
    fetched.bins.grab()


def test_index_fields_choose_the_slice(fetched):
    (field,) = fetched.indices
    field.setValue(1)
    assert fetched.slice()[0, 0] == 12
    fetched.copy()
    assert QApplication.clipboard().text().splitlines()[0] == "12\t13\t14\t15"


def test_reference_and_difference_are_other_sides(fetched, tmp_path):
    fetched.side.setCurrentText(REFERENCE)
    assert fetched.slice()[0, 0] == 0.5
    fetched.side.setCurrentText(DIFFERENCE)
    assert np.all(fetched.shown() == -0.5)
    fetched.save(tmp_path / "t.npy")
    assert np.load(tmp_path / "t.npy").shape == (2, 3, 4)


def test_another_model_has_no_tensor_yet(qtbot, window, fetched, model_file):
    open_it(qtbot, window, model_file)
    assert fetched.found is None and fetched.caption.text() == EMPTY
    assert not fetched.save_button.isEnabled() and fetched.names.count() > 2


def test_figures_leave_out_what_is_not_finite():
    found = figures_of(np.array([1.0, 3.0, np.nan, np.inf, 0.0]))
    assert (found.low, found.high, found.nans, found.infs, found.zeros) == (0, 3, 1, 1, 1)
    assert sum(found.counts) == 3


def test_a_vector_is_one_row_and_a_large_slice_is_thinned():
    assert slice_of(np.arange(3), ()).shape == (1, 3)
    drawn, down, across = thinned(np.zeros((1025, 10)))
    assert (drawn.shape, down, across) == ((342, 10), 3, 1)
