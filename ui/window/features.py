"""The table of docks, one row each, and the actions of the window itself."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.ui.commands.actions import ActionSpec, ordered
from nnjit_studio.ui.device.feature import DEVICE
from nnjit_studio.ui.diff.feature import BACKENDS, DIFF
from nnjit_studio.ui.dock.feature import COMPARE, INSPECT, TUNE, WASM_FILE, Feature
from nnjit_studio.ui.generation.feature import TEXT
from nnjit_studio.ui.graph.feature import GRAPH
from nnjit_studio.ui.kernel.feature import KERNEL
from nnjit_studio.ui.log.feature import LOG
from nnjit_studio.ui.profile.feature import PROFILE
from nnjit_studio.ui.records.feature import DATABASE
from nnjit_studio.ui.tuning.feature import LATENCY, ROUNDS, SPACE, TUNING
from nnjit_studio.ui.wasm.feature import WASM
from nnjit_studio.ui.widgets.panel import Panel

OWN_ACTIONS = (
    ActionSpec("open", "&File", "&Open model…", "Ctrl+O", "idle", "Open an ONNX model",
               "nnjit studio MODEL"),
    ActionSpec("sample", "&File", "Open sa&mple model", "Ctrl+Shift+M", "idle",
               "A real model, written on this machine", "nnjit sample minilm -o minilm.onnx"),
    ActionSpec("export", "&File", "&Export bundle…", "Ctrl+E", "model",
               "Write the tuned kernel bundle", "nnjit export MODEL -o bundle.nnjit.zip"),
    ActionSpec("report", "&File", "Export &report…", "Ctrl+Shift+E", "model",
               "Write a report: HTML with plots, or Markdown for a name in .md",
               "nnjit tune MODEL --report report.html"),
    ActionSpec("open_session", "&File", "Open &session…", "Ctrl+Shift+O", "idle",
               "Model, layout, results"),
    ActionSpec("save_session", "&File", "&Save session…", "Ctrl+S",
               tip="Model, workload, layout, settings and results as one file"),
    ActionSpec("quit", "&File", "&Quit", "Ctrl+Q", place=9),
    ActionSpec("undo", "&Edit", "&Undo", "Ctrl+Z"),
    ActionSpec("redo", "&Edit", "&Redo", "Ctrl+Shift+Z"),
    ActionSpec("settings", "&Edit", "Se&ttings…", "Ctrl+,", place=1),
    ActionSpec("tune", "&Tune", "&Start tuning", "F5", "model",
               "Tune the model's kernels, heaviest first", "nnjit tune MODEL"),
    ActionSpec("pause", "&Tune", "&Pause", "Ctrl+F5", "tuning",
               "Pause tuning after this round, or go on; the model is free meanwhile"),
    ActionSpec("stop", "&Tune", "S&top", "Shift+F5", "busy", "Stop the running job"),
    ActionSpec("resume_last", "&Tune", "&Resume the last tuning", "Ctrl+Shift+F5", "idle",
               "Open the model whose tuning did not end, and go on from the database's records",
               "nnjit tune MODEL"),
    ActionSpec("next", "&Tune", "Select &next workload", "Alt+Down"),
    ActionSpec("previous", "&Tune", "Select &previous workload", "Alt+Up"),
    ActionSpec("reset_plots", "&View", "Reset &plots", "Ctrl+R", place=1),
    ActionSpec(TUNE, "&View", "Layout for tunin&g", "Ctrl+1", place=2),
    ActionSpec(INSPECT, "&View", "Layout for &inspecting", "Ctrl+2", place=2),
    ActionSpec(COMPARE, "&View", "Layout for comp&aring", "Ctrl+3", place=2),
    ActionSpec(WASM_FILE, "&View", "Layout for &Wasm files", "Ctrl+4", place=2),
    ActionSpec("reset_layout", "&View", "&Reset layout", place=2),
    ActionSpec("palette", "&Help", "&Commands…", "Ctrl+Shift+P", tip="Find any command by typing"),
    ActionSpec("welcome", "&Help", "&Welcome page"),
    ActionSpec("examine", "&Help", "&Examine this machine", "", "idle",
               "Engine, sandbox, disk, browsers and their GPUs", "nnjit doctor"),
    ActionSpec("shortcuts", "&Help", "&Keyboard shortcuts", "F1"),
    ActionSpec("about", "&Help", "&About NNJIT Studio"),
)  # fmt: skip


FEATURES: tuple[Feature[Panel], ...] = (
    GRAPH, TUNING, ROUNDS, LATENCY, SPACE, KERNEL, PROFILE, DIFF, BACKENDS, TEXT, WASM, DATABASE,
    DEVICE, LOG,
)  # fmt: skip
"""Those at the bottom of the window are tabs in this order."""


def actions_of(features: Sequence[Feature[Panel]]) -> tuple[ActionSpec, ...]:
    """Every action of a window with these docks, in the order of the menus."""
    return ordered((*OWN_ACTIONS, *(action for feature in features for action in feature.actions)))


ACTIONS = actions_of(FEATURES)
