"""The dock of the model graph."""

from __future__ import annotations

from functools import partial
from typing import Any

from nnjit_studio.ui.commands import dialogs
from nnjit_studio.ui.dock.feature import COMPARE, INSPECT, STAGE, TUNE, Action, Feature
from nnjit_studio.ui.dock.host import Host
from nnjit_studio.ui.graph.dock import GraphPanel
from nnjit_studio.ui.graph.node_texts import DO
from nnjit_studio.ui.widgets.tables import TablePanel

MENU = ("diff_node", "open_group", "close_group", "kernel")
"""Actions of the context menu of a box."""


def _make(host: Host) -> GraphPanel:
    panel = GraphPanel(host.session, host.theme)
    panel.details.known.places = host.docks
    panel.asked.connect(partial(follow, host))
    panel.problem.connect(host.tell)
    panel.wants_kernel.connect(lambda key: host.kernels.wanted.emit(key, ""))
    panel.wants_profile.connect(partial(_ask_profile, host, panel))
    for name in MENU:
        panel.view.addAction(host.actions[name])
    host.node_wanted.connect(panel.go_to)
    host.workload_wanted.connect(panel.go_to_workload)
    return panel


def follow(host: Host, link: str, node: str) -> bool:
    """Follow a link of the details of a node: to a dock and the node's row, or to an action.

    False where this window has no such dock or action.
    """
    if link.startswith(DO):
        action = host.actions.get(link[len(DO) :])
        if action is not None:
            action.trigger()
        return action is not None
    if link not in host.docks:
        return False
    host.docks.show(link)
    model, panel = host.session.state.model, host.docks.panel(link)
    nodes = model.graph.nodes if model is not None else ()
    workload = next((n.workload for n in nodes if n.name == node), "")

    def wanted(row: Any) -> bool:
        if hasattr(row, "node"):
            return bool(row.node == node)
        return getattr(row, "workload", None) == workload

    if isinstance(panel, TablePanel):
        panel.select_row(wanted)
    return True


def _ask_profile(host: Host, panel: GraphPanel) -> None:
    dialogs.ask_file(host.window, dialogs.PROFILES, host.saver.folder, panel.compare_with_file)


def _split(host: Host) -> None:
    panel = GRAPH.show(host)
    panel.set_split(not panel.sides.split)


ACTIONS = (
    Action("find", "&View", "&Find in graph", "Ctrl+F",
           do=lambda host: GRAPH.show(host).search.begin()),
    Action("find_next", "&View", "Find &next", "F3",
           do=lambda host: GRAPH.panel(host).search.step(1)),
    Action("find_previous", "&View", "Find pre&vious", "Shift+F3",
           do=lambda host: GRAPH.panel(host).search.step(-1)),
    Action("fit", "&View", "Fi&t graph", "Ctrl+0", do=lambda host: GRAPH.panel(host).view.fit()),
    Action("open_group", "&View", "&Open group of the graph", "Ctrl+]", place=1,
           do=lambda host: GRAPH.panel(host).folding.open_group()),
    Action("close_group", "&View", "&Close group of the graph", "Ctrl+[", place=1,
           do=lambda host: GRAPH.panel(host).folding.close_group()),
    Action("open_groups", "&View", "Open &all groups of the graph", "Ctrl+Alt+]", place=1,
           do=lambda host: GRAPH.panel(host).folding.open_all()),
    Action("close_groups", "&View", "Close all &groups of the graph", "Ctrl+Alt+[", place=1,
           do=lambda host: GRAPH.panel(host).folding.close_all()),
    Action("colour", "&View", "Co&lour the graph by the next value", "Ctrl+L", place=1,
           do=lambda host: GRAPH.panel(host).next_colour()),
    Action("split", "&View", "&Two graphs side by side", "Ctrl+B",
           place=1,
           tip="The run under Compare on the left, the run under Show on the right", do=_split),
)  # fmt: skip
GRAPH: Feature[GraphPanel] = Feature(
    "graph", "Model graph", _make, STAGE, ACTIONS, layouts=(TUNE, INSPECT, COMPARE)
)
