"""The words of a box: its last line and its tooltip. Knows no Qt."""

from __future__ import annotations

from collections.abc import Iterator

from nnjit_studio.model import Node
from nnjit_studio.ui.graph.facts import COLOUR_BY, ColourBy, Facts
from nnjit_studio.ui.graph.groups import Unit
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.widgets import text

MOST_SOURCES = 8


def cost(unit: Unit, by: ColourBy, facts: Facts) -> str:
    """The last line of a box: its time, and the value that it is coloured by."""
    value, ms = by.value(facts, unit.nodes), _times(unit, facts)
    if by.id == "delta" and value is not None:
        return f"{text.latency(sum(ms) - value)} → {text.latency(sum(ms))} ms"
    words = "" if value is None else by.say(value)
    return f"{text.latency(sum(ms))} ms   {words}" if ms else words


def tip(unit: Unit, line: str, warning: str, facts: Facts, run: str, state: SessionState) -> str:
    """Everything that is known of a box in short, line by line; ``run`` names its run."""
    if not unit.nodes:
        return f"{unit.title}  {line}"
    lines = [warning, ""] if warning else []
    if unit.group:
        lines += [unit.group, f"{len(unit.nodes)} nodes; double-click or Right opens it"]
    else:
        lines += _of_node(unit.nodes[0], state)
    for by in COLOUR_BY:
        value = by.value(facts, unit.nodes)
        if value is not None:
            lines.append(f"{by.title}: {by.say(value)}")
    if ms := _times(unit, facts):
        lines.append(f"{text.latency(sum(ms))} ms, {run}")
    if not unit.group:
        lines += _sources(unit)
    return "\n".join(lines)


def _times(unit: Unit, facts: Facts) -> list[float]:
    return [facts.ms[n.name] for n in unit.nodes if n.name in facts.ms]


def _of_node(node: Node, state: SessionState) -> Iterator[str]:
    yield node.op
    yield f"workload  {text.short_key(node.workload)}"
    workload = state.find(node.workload)
    if workload is not None:
        yield f"used by {workload.workload.uses} nodes"
        if workload.incumbent and state.code:
            yield f"{state.code} kernel  {workload.incumbent}"


def _sources(unit: Unit) -> Iterator[str]:
    names = list(dict.fromkeys(name for n in unit.nodes for name in n.source))
    if names:
        yield from ("", "ONNX nodes:", *names[:MOST_SOURCES])
    if len(names) > MOST_SOURCES:
        yield f"and {len(names) - MOST_SOURCES} more"
