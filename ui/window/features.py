"""The table of docks, one row each, and the actions of the window itself."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.ui.advice.feature import ADVICE
from nnjit_studio.ui.commands.actions import ActionSpec, ordered
from nnjit_studio.ui.device.feature import DEVICE
from nnjit_studio.ui.devices.feature import DEVICES
from nnjit_studio.ui.diff.feature import BACKENDS, BROWSERS, DIFF
from nnjit_studio.ui.dock.feature import COMPARE, INSPECT, TUNE, WASM_FILE, Feature
from nnjit_studio.ui.generation.feature import TEXT
from nnjit_studio.ui.graph.feature import GRAPH
from nnjit_studio.ui.kernel.feature import KERNEL
from nnjit_studio.ui.log.feature import LOG
from nnjit_studio.ui.profile.feature import PROFILE
from nnjit_studio.ui.records.feature import DATABASE
from nnjit_studio.ui.refused.feature import REFUSED
from nnjit_studio.ui.tensors.feature import TENSORS
from nnjit_studio.ui.tuning.feature import LATENCY, PLAN, ROUNDS, SPACE, TUNING
from nnjit_studio.ui.wasm.feature import WASM
from nnjit_studio.ui.widgets.panel import Panel

OWN_ACTIONS = (
    ActionSpec("open", "&File", "&Open model…", "Ctrl+O", "idle", "Open an ONNX model",
               "nnjit studio MODEL"),
    ActionSpec("sample", "&File", "Open sa&mple model", "Ctrl+Shift+M", "idle",
               "A real model, written on this machine", "nnjit sample minilm -o minilm.onnx"),
    ActionSpec("export", "&File", "&Export bundle…", "Ctrl+E", "model",
               "Write the tuned kernel bundle", "nnjit export MODEL -o bundle.nnjit.zip", place=1),
    ActionSpec("report", "&File", "Export &report…", "Ctrl+Shift+E", "tuned",
               "Write a report: HTML with plots, or Markdown for a name in .md",
               "nnjit tune MODEL --report report.html", place=1),
    ActionSpec("open_session", "&File", "Open &session…", "Ctrl+Shift+O", "idle",
               "Model, layout, results"),
    ActionSpec("save_session", "&File", "&Save session…", "Ctrl+S",
               tip="Model, workload, layout, settings and results as one file", place=1),
    ActionSpec("quit", "&File", "&Quit", "Ctrl+Q", place=9),
    ActionSpec("undo", "&Edit", "&Undo", "Ctrl+Z", "undo"),
    ActionSpec("redo", "&Edit", "&Redo", "Ctrl+Shift+Z", "redo"),
    ActionSpec("settings", "&Edit", "Se&ttings…", "Ctrl+,", place=9),
    ActionSpec("tune", "&Tune", "&Start tuning", "F5", "model",
               "Tune the model's kernels, heaviest first", "nnjit tune MODEL"),
    ActionSpec("pause", "&Tune", "&Pause", "Ctrl+F5", "tuning",
               "Pause tuning after this round, or go on; the model is free meanwhile"),
    ActionSpec("stop", "&Tune", "S&top", "Shift+F5", "busy", "Stop the running job"),
    ActionSpec("resume_last", "&Tune", "&Resume the last tuning", "Ctrl+Shift+F5", "idle",
               "Go on with a tuning that was stopped or did not end, from the database's records",
               "nnjit tune MODEL"),
    ActionSpec("next", "&Tune", "Select &next workload", "Alt+Down", place=1),
    ActionSpec("previous", "&Tune", "Select &previous workload", "Alt+Up", place=1),
    ActionSpec("feed", "&Inspect", "&Inputs…", "Ctrl+I", "model",
               "Give the model inputs of your own: pictures, arrays, text, numbers"),
    ActionSpec("compare", "&Inspect", "Compare with ONNX Runtime We&b", "Ctrl+F6", "model",
               "Run the model in turns in ONNX Runtime Web and here, untuned and tuned",
               "nnjit compare MODEL"),
    ActionSpec("install_peer", "&Inspect", "Install ONNX Runtime &Web…", "", "idle",
               "Fetch the pinned onnxruntime-web through npm, 14 MB, for comparisons",
               "nnjit peers install"),
    ActionSpec("reset_plots", "&View", "Reset &plots", "Ctrl+R", place=3),
    ActionSpec(TUNE, "&View", "Layout for tunin&g", "Ctrl+1", place=4),
    ActionSpec(INSPECT, "&View", "Layout for &inspecting", "Ctrl+2", place=4),
    ActionSpec(COMPARE, "&View", "Layout for comp&aring", "Ctrl+3", place=4),
    ActionSpec(WASM_FILE, "&View", "Layout for &Wasm files", "Ctrl+4", place=4),
    ActionSpec("reset_layout", "&View", "&Reset layout", place=4),
    ActionSpec("documentation", "&Help", "&Documentation",
               tip="Tour, every view, how figures are measured"),
    ActionSpec("palette", "&Help", "&Commands…", "Ctrl+Shift+P", tip="Find any command by typing"),
    ActionSpec("welcome", "&Help", "&Welcome page", place=1),
    ActionSpec("examine", "&Help", "&Examine this machine", "", "idle",
               "Engine, sandbox, disk, browsers and their GPUs", "nnjit doctor", place=1),
    ActionSpec("shortcuts", "&Help", "&Keyboard shortcuts", "F1"),
    ActionSpec("about", "&Help", "&About NNJIT Studio", place=9),
)  # fmt: skip


FEATURES: tuple[Feature[Panel], ...] = (
    GRAPH, PROFILE, ADVICE, KERNEL, DIFF, TENSORS, TEXT, WASM, REFUSED, TUNING, ROUNDS, LATENCY,
    SPACE, PLAN, DATABASE, BACKENDS, BROWSERS, DEVICE, DEVICES, LOG,
)  # fmt: skip
"""Those of one place are tabs in this order."""


def actions_of(features: Sequence[Feature[Panel]]) -> tuple[ActionSpec, ...]:
    """Every action of a window with these docks, in the order of the menus."""
    return ordered((*OWN_ACTIONS, *(action for feature in features for action in feature.actions)))


ACTIONS = actions_of(FEATURES)
