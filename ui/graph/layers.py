"""The layers of the graph as a list: what each takes of the time, and what it consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.model import Node
from nnjit_studio.model.readable import words_of
from nnjit_studio.ui.graph.facts import COLOUR_BY, Facts, worth_a_mark
from nnjit_studio.ui.graph.groups import Groups
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.widgets.tables import Column, TablePanel
from nnjit_studio.ui.widgets.theme import Theme

INDENT = "\u00a0" * 3
SHARE = next(by for by in COLOUR_BY if by.id == "share")


@dataclass(frozen=True)
class Layer:
    """A group of the graph with the totals of its nodes; None before the model has run."""

    group: str
    ms: float | None
    share: float | None
    operators: str
    avoidable: bool
    """It holds steps that could be avoided and cost a percent of the time or more."""


@dataclass(frozen=True)
class Content:
    """What a layer consists of, whatever its times are."""

    group: str
    nodes: tuple[Node, ...]
    operators: str

    def timed(self, facts: Facts, warnings: Mapping[str, str]) -> Layer:
        """The layer in a run; ``warnings`` are why nodes could be avoided, by workload."""
        known = [facts.ms[n.name] for n in self.nodes if n.name in facts.ms]
        share = SHARE.value(facts, self.nodes)
        marked = [n for n in self.nodes if warnings.get(n.workload)]
        avoidable = bool(marked) and worth_a_mark(facts, marked)
        return Layer(self.group, sum(known) if known else None, share, self.operators, avoidable)


def contents_of(groups: Groups) -> list[Content]:
    """Every layer in order of execution, outer ones before those inside."""
    nodes = {node.name: node for node in groups.graph.nodes}
    return [_content(group, [nodes[n] for n in names]) for group, names in groups.members.items()]


def _content(group: str, nodes: Sequence[Node]) -> Content:
    counts = Counter(words_of(n.workload).operator if n.workload else n.op for n in nodes)
    operators = ", ".join(f"{count} {name}" for name, count in counts.most_common())
    return Content(group, tuple(nodes), operators)


def _indented(group: str) -> str:
    """The last part of the name, below those of the layers around it."""
    *around, name = group.split("/")
    return INDENT * len(around) + name


def _tone(layer: Layer) -> str:
    return "bad" if layer.avoidable else ""


COLUMNS = (
    Column("layer", lambda r: r.group, _indented, width=124, tone=_tone, hint=lambda r: r.group),
    Column("time", lambda r: r.ms, text.time, True, "of all its steps in the run that is shown", 74,
           _tone, in_files="ms"),
    Column("share %", lambda r: r.share, lambda v: text.fixed(v, 1), True,
           "of the sum of all steps; a layer holds those inside it", 64, _tone),
    Column("operators", lambda r: r.operators, width=220),
)  # fmt: skip


class LayerList(TablePanel):
    """Follows the run that the graph shows; a row that is picked leads to its layer."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("Layers", COLUMNS, theme)
        for widget in (self.filter, self.copy_button):
            widget.hide()  # the graph has a search; Ctrl+C copies
        self.bar.setContentsMargins(0, 0, 0, 0)

        self._groups: Groups | None = None
        self._contents: list[Content] = []

    def show_layers(self, groups: Groups, facts: Facts, warnings: Mapping[str, str]) -> None:
        """Show the layers of a graph with the times of a run."""
        same = groups is self._groups
        if not same:
            self._groups, self._contents = groups, contents_of(groups)
        self.model.set_rows([each.timed(facts, warnings) for each in self._contents], same)
