"""A tensor of the last run, on demand: figures, histogram, a slice, and native ONNX Runtime's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import QSignalBlocker, Qt
from PySide6.QtWidgets import QApplication, QComboBox, QLabel, QSpinBox, QWidget

from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.state.jobs import Job
from nnjit_studio.ui.tensors.drawings import Bins, Heatmap
from nnjit_studio.ui.tensors.slices import Figures, figures_of, slice_of
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import (
    Panel,
    chooser,
    clear,
    hbox,
    inset,
    named,
    push_button,
    vbox,
)
from nnjit_studio.ui.widgets.theme import Theme
from nnjit_studio.workbench import jobs
from nnjit_studio.workbench.jobs.diff import TensorValues

JOB = "tensor"
EMPTY = "Choose a tensor, or a node in the graph, then press Fetch: the model runs once for it."
PAGE, REFERENCE, DIFFERENCE = "in the page", "ONNX Runtime", "difference"


class TensorPanel(Panel):
    """One tensor at a time; it is fetched when it is asked for and not before."""

    def __init__(self, host: Host) -> None:
        super().__init__()
        self._host, self._session = host, host.session
        self.found: TensorValues | None = None
        self._node = ""
        self.names = chooser("Tensor", "Inputs of the model and what its steps compute, in order")
        policy = QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        self.names.setSizeAdjustPolicy(policy)
        self.names.setMinimumContentsLength(24)
        self.fetch_button = push_button("Fetch", "Fetch the tensor", "Run once", self.fetch)
        self.side = chooser("Values shown", "", (PAGE, REFERENCE, DIFFERENCE))
        self.side.currentTextChanged.connect(lambda _: self._draw())
        self.copy_button = push_button(
            "Copy slice", "Copy the slice", "The slice that is drawn, as TSV", self.copy
        )
        self.save_button = push_button("Save .npy…", "Save the tensor", "The whole tensor, NumPy")
        host.saver.offer(self.save_button, "Save tensor", "-tensor.npy", self.save)
        self.caption = ElidedLabel(EMPTY)
        self.compared = quiet(ElidedLabel())
        self.figures = QLabel(textFormat=Qt.TextFormat.PlainText)
        self.bins, self.heatmap = Bins(host.theme), Heatmap(host.theme)
        self.indices: list[QSpinBox] = []
        self._index = hbox(None)
        bar = hbox(
            (self.names, 1), self.fetch_button, self.side, self.copy_button, self.save_button,
            margins=(8, 6, 8, 4),
        )  # fmt: skip
        left, right = QWidget(), QWidget()
        vbox(self.figures, (self.bins, 1), on=left, spacing=4)
        left.setFixedWidth(270)
        vbox(self._index, (self.heatmap, 1), on=right, spacing=4)
        below = hbox(left, (right, 1), margins=(10, 2, 10, 6), spacing=14)
        said = vbox(self.caption, self.compared, margins=(10, 0, 10, 0))
        vbox(bar, said, (below, 1), on=self, spacing=2)
        self._session.done.connect(self._done)
        self._session.busy_changed.connect(lambda _: self._enable())
        self._fill_names()
        self._draw()

    def fetch(self) -> bool:
        """Run the model once for the chosen tensor; False when another job runs."""
        name = self.names.currentText()
        if not name:
            return False
        work = Job(JOB, f"Fetching {name}", lambda bench, tell: bench.run(jobs.tensor, name, tell))
        return self._session.run(work)

    def choose_node(self, node: str) -> bool:
        """Choose what a step computes; False where no step has that name."""
        model = self._session.state.model
        steps = [n for n in model.graph.nodes if n.name == node] if model else []
        if steps and steps[0].outputs:
            self.names.setCurrentText(steps[0].outputs[0])
        return bool(steps)

    def refresh(self, changes: frozenset[str]) -> None:
        if "model" in changes:
            self._fill_names()
        node = self._session.state.node
        if node and node != self._node:
            self._node = node
            self.choose_node(node)

    def set_theme(self, theme: Theme) -> None:
        self.bins.theme = self.heatmap.theme = theme
        self._draw()

    def shown(self) -> NDArray[Any] | None:
        """The array that the second list chooses."""
        found = self.found
        if found is None or found.reference is None or self.side.currentText() == PAGE:
            return None if found is None else found.values
        if self.side.currentText() == REFERENCE:
            return found.reference
        with np.errstate(invalid="ignore"):
            made: NDArray[Any] = found.values.astype(np.float64) - found.reference
        return made

    def slice(self) -> NDArray[np.float64]:
        """The last two axes at the index fields."""
        array = self.shown()
        if array is None:
            return np.zeros((0, 0))
        return slice_of(array, [field.value() for field in self.indices])

    def copy(self) -> None:
        """The slice as TSV, with all digits that tell values apart."""
        lines = ("\t".join(f"{v:.9g}" for v in row) for row in self.slice())
        QApplication.clipboard().setText("\n".join(lines))

    def save(self, path: Path) -> None:
        """Write the array that is shown; raises ``OSError``."""
        array = self.shown()
        assert array is not None
        with path.open("wb") as file:
            np.save(file, array, allow_pickle=False)

    # Following

    def _fill_names(self) -> None:
        model = self._session.state.model
        names = []
        if model is not None:
            names = [*model.graph.inputs, *(t for n in model.graph.nodes for t in n.outputs)]
        kept = self.names.currentText()
        with QSignalBlocker(self.names):
            self.names.clear()
            self.names.addItems(names)
            self.names.setCurrentText(kept)
        self._enable()

    def _enable(self) -> None:
        self.fetch_button.setEnabled(self.names.count() > 0 and not self._session.busy)
        for button in (self.copy_button, self.save_button):
            button.setEnabled(self.found is not None)
        self.side.setEnabled(self.found is not None and self.found.reference is not None)

    def _done(self, job: str, result: object) -> None:
        if job == "open":
            self.show_tensor(None)
        elif job == JOB and isinstance(result, TensorValues):
            self.show_tensor(result)

    def show_tensor(self, found: TensorValues | None) -> None:
        """Show a tensor; None for none."""
        self.found = found
        if found is not None:
            self.names.setCurrentText(found.name)
        self.side.setCurrentText(PAGE)
        self._make_fields(found.values.shape if found is not None else ())
        self._enable()
        self._draw()

    def _make_fields(self, shape: tuple[int, ...]) -> None:
        clear(self._index)
        self.indices = []
        for axis, size in enumerate(shape[:-2]):
            field = named(inset(QSpinBox()), f"Index of axis {axis}", f"Of {size}, from 0")
            field.setRange(0, size - 1)
            field.valueChanged.connect(lambda _: self._draw())
            self.indices.append(field)
            self._index.addWidget(QLabel(f"axis {axis}"))
            self._index.addWidget(field)
        self._index.addStretch(1)

    def _draw(self) -> None:
        array, found = self.shown(), self.found
        figures = figures_of(array) if array is not None else None
        self.bins.show_figures(figures)
        self.heatmap.show_slice(self.slice())
        self.figures.setText(words(figures) if figures else "")
        if found is None:
            self.caption.setText(EMPTY)
            self.compared.setText("")
            return
        shape = f"{text.shape(found.values.shape)} {found.values.dtype}"
        step = f", of step {found.node}" if found.node else ", an input"
        self.caption.setText(f"{found.name}: {shape}{step}")
        row = found.difference
        self.compared.setText(
            f"Largest error against ONNX Runtime {row.max_rel:.2e} of the largest value, at "
            f"{list(row.worst)}: {row.got:.6g}, not {row.expected:.6g}; cosine {row.cosine:.9f}"
            if row is not None
            else f"Not compared: {found.why}."
        )


def words(figures: Figures) -> str:
    """Figures in three lines."""
    strange = f", {figures.nans} NaN, {figures.infs} infinite"
    return (
        f"least {figures.low:.6g}, greatest {figures.high:.6g}\n"
        f"mean {figures.mean:.6g}, deviation {figures.std:.6g}\n"
        f"{figures.zeros} zeros{strange}"
    )
