"""One registry of actions: it feeds the menus, the shortcuts and their list."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from nnjit_studio.ui.widgets.theme import named


@dataclass(frozen=True)
class ActionSpec:
    """What the user can do.

    ``needs``: ``idle``, ``model`` (and idle), ``tuning`` (running or paused), ``busy`` (or
    paused) or nothing. ``command``: what does the same on the command line, with ``MODEL`` for
    the model's path.
    """

    id: str
    menu: str
    text: str
    shortcut: str = ""
    needs: str = ""
    tip: str = ""
    command: str = ""


ACTIONS = (
    ActionSpec(
        "open",
        "&File",
        "&Open model…",
        "Ctrl+O",
        "idle",
        "Open an ONNX model",
        command="nnjit studio MODEL",
    ),
    ActionSpec(
        "sample",
        "&File",
        "Open sa&mple model",
        "Ctrl+Shift+M",
        "idle",
        "A real model, written on this machine",
        command="nnjit sample minilm -o minilm.onnx",
    ),
    ActionSpec(
        "export",
        "&File",
        "&Export bundle…",
        "Ctrl+E",
        "model",
        "Write the tuned kernel bundle",
        command="nnjit export MODEL -o bundle.nnjit.zip",
    ),
    ActionSpec(
        "report",
        "&File",
        "Export &report…",
        "Ctrl+Shift+E",
        "model",
        "Write a report: HTML with plots, or Markdown for a name in .md",
        command="nnjit tune MODEL --report report.html",
    ),
    ActionSpec(
        "open_session", "&File", "Open &session…", "Ctrl+Shift+O", "idle", "Model, layout, results"
    ),
    ActionSpec(
        "save_session",
        "&File",
        "&Save session…",
        "Ctrl+S",
        tip="Model, workload, layout, settings and results as one file",
    ),
    ActionSpec(
        "import",
        "&File",
        "&Import records…",
        tip="Add the records of another kernel database or of an export",
        command="nnjit db import FILE",
    ),
    ActionSpec(
        "export_records",
        "&File",
        "Export re&cords…",
        tip="Write the kernel database as .db, .json or .csv",
        command="nnjit db export FILE",
    ),
    ActionSpec("quit", "&File", "&Quit", "Ctrl+Q"),
    ActionSpec("undo", "&Edit", "&Undo", "Ctrl+Z"),
    ActionSpec("redo", "&Edit", "&Redo", "Ctrl+Shift+Z"),
    ActionSpec(
        "note", "&Edit", "&Note and tags…", "F2", tip="Note something on the selected records"
    ),
    ActionSpec(
        "delete",
        "&Edit",
        "&Delete records",
        "Del",
        tip="Put the selected records aside; undo brings them back",
    ),
    ActionSpec("settings", "&Edit", "Se&ttings…", "Ctrl+,"),
    ActionSpec("restore", "&Edit", "Re&store records", tip="Bring selected deleted records back"),
    ActionSpec(
        "tune",
        "&Tune",
        "&Start tuning",
        "F5",
        "model",
        "Tune the model's kernels, heaviest first",
        command="nnjit tune MODEL",
    ),
    ActionSpec(
        "pause",
        "&Tune",
        "&Pause",
        "Ctrl+F5",
        "tuning",
        "Pause tuning after this round, or go on; the model is free meanwhile",
    ),
    ActionSpec("stop", "&Tune", "S&top", "Shift+F5", "busy", "Stop what is running"),
    ActionSpec(
        "resume_last",
        "&Tune",
        "&Resume the last tuning",
        "Ctrl+Shift+F5",
        "idle",
        "Open the model whose tuning did not end, and go on from what the database knows",
        command="nnjit tune MODEL",
    ),
    ActionSpec("next", "&Tune", "Select &next workload", "Alt+Down"),
    ActionSpec("previous", "&Tune", "Select &previous workload", "Alt+Up"),
    ActionSpec(
        "own", "&Tune", "&Measure a candidate of mine", "Ctrl+K", tip="Type settings, measure them"
    ),
    ActionSpec(
        "device",
        "&Tune",
        "&Measure this device",
        "",
        "idle",
        "Registers, caches and primitives",
        command="nnjit doctor --microbench",
    ),
    ActionSpec(
        "profile",
        "&Inspect",
        "&Profile",
        "F6",
        "model",
        "Time, rates and memory of every step",
        command="nnjit profile MODEL",
    ),
    ActionSpec(
        "diff",
        "&Inspect",
        "&Compare with ONNX Runtime",
        "F7",
        "model",
        "Every tensor of the model beside native ONNX Runtime, the worst first",
        command="nnjit diff MODEL",
    ),
    ActionSpec(
        "diff_node",
        "&Inspect",
        "Compare &this tensor with ONNX Runtime",
        "Shift+F7",
        "model",
        "What the node that is selected in the graph computes",
    ),
    ActionSpec(
        "kernel",
        "&Inspect",
        "Inspect &kernel",
        "F4",
        tip="Texts after each pass, samples, settings: of the selected row, or what runs",
    ),
    ActionSpec(
        "faster",
        "&Inspect",
        "&Wasm or WebGPU?",
        "F8",
        "model",
        "Which is faster here, whole and by step, and why",
        command="nnjit faster MODEL",
    ),
    ActionSpec(
        "text",
        "&Inspect",
        "Make te&xt",
        "F9",
        tip="Go on with a prompt of token ids",
        command="nnjit generate MODEL --ids 1,2,3",
    ),
    ActionSpec("find", "&View", "&Find in graph", "Ctrl+F"),
    ActionSpec("find_next", "&View", "Find &next", "F3"),
    ActionSpec("find_previous", "&View", "Find pre&vious", "Shift+F3"),
    ActionSpec("fit", "&View", "Fi&t graph", "Ctrl+0"),
    ActionSpec("open_group", "&View", "&Open group of the graph", "Ctrl+]"),
    ActionSpec("close_group", "&View", "&Close group of the graph", "Ctrl+["),
    ActionSpec("open_groups", "&View", "Open &all groups of the graph", "Ctrl+Alt+]"),
    ActionSpec("close_groups", "&View", "Close all &groups of the graph", "Ctrl+Alt+["),
    ActionSpec("colour", "&View", "Co&lour the graph by the next value", "Ctrl+L"),
    ActionSpec(
        "split",
        "&View",
        "&Two graphs side by side",
        "Ctrl+B",
        tip="The run under Compare on the left, the run under Show on the right",
    ),
    ActionSpec("reset_plots", "&View", "Reset &plots", "Ctrl+R"),
    ActionSpec("refresh", "&View", "Refresh &kernel database", "Ctrl+D", command="nnjit db list"),
    ActionSpec("layout_tune", "&View", "Layout for tunin&g", "Ctrl+1"),
    ActionSpec("layout_inspect", "&View", "Layout for &inspecting", "Ctrl+2"),
    ActionSpec("layout_compare", "&View", "Layout for comp&aring", "Ctrl+3"),
    ActionSpec("reset_layout", "&View", "&Reset layout"),
    ActionSpec("palette", "&Help", "&Commands…", "Ctrl+Shift+P", tip="Find any command by typing"),
    ActionSpec("welcome", "&Help", "&Welcome page"),
    ActionSpec(
        "examine",
        "&Help",
        "&Examine this machine",
        "",
        "idle",
        "Engine, sandbox, disk, browsers and their GPUs",
        command="nnjit doctor",
    ),
    ActionSpec("shortcuts", "&Help", "&Keyboard shortcuts", "F1"),
    ActionSpec("about", "&Help", "&About NNJIT Studio"),
)


def command_line(action_id: str, model: Path | None) -> str:
    """What does the same as an action on the command line, empty where nothing does."""
    command = next((spec.command for spec in ACTIONS if spec.id == action_id), "")
    return command.replace("MODEL", shlex.quote(str(model))) if model else command


def build(
    window: QWidget, bar: QMenuBar, handlers: Mapping[str, Callable[[], object]]
) -> tuple[dict[str, QAction], dict[str, QMenu]]:
    """Make every action, connected and placed; returns them by id, and the menus by title.

    Raises
    ------
    KeyError
        When an action has no handler.
    """
    actions: dict[str, QAction] = {}
    menus: dict[str, QMenu] = {}
    for spec in ACTIONS:
        if spec.menu not in menus:
            menus[spec.menu] = named(bar.addMenu(spec.menu), spec.menu.replace("&", ""))
        action = QAction(spec.text, window)
        action.setObjectName(spec.id)
        action.setShortcut(QKeySequence(spec.shortcut))
        plain = spec.tip or spec.text.replace("&", "")
        action.setToolTip(f"{plain} ({spec.shortcut})" if spec.shortcut else plain)
        handler = handlers[spec.id]
        action.triggered.connect(lambda _=False, handler=handler: handler())
        menus[spec.menu].addAction(action)
        actions[spec.id] = action
    return actions, menus


def enable(actions: Mapping[str, QAction], job: str, has_model: bool, paused: bool) -> None:
    """Make possible what is possible now, while ``job`` runs and a session waits or not."""
    able = {
        "": True,
        "idle": not job,
        "model": has_model and not job,
        "tuning": job == "tune" or (paused and not job),
        "busy": bool(job) or paused,
    }
    actions["pause"].setText("&Resume" if paused and not job else "&Pause")
    for spec in ACTIONS:
        actions[spec.id].setEnabled(able[spec.needs])
