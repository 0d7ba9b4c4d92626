"""Facts of a box as text: rows of HTML with links, its tooltip, its last line. Knows no Qt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from nnjit_studio.analysis.diff import Diff
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.model import Graph, GraphPass, Node
from nnjit_studio.model.readable import words_of
from nnjit_studio.records import TuningRecord
from nnjit_studio.ui.graph.facts import COLOUR_BY, ColourBy, Facts, warning_of, worth_a_mark
from nnjit_studio.ui.graph.groups import Unit
from nnjit_studio.ui.graph.weights import Histogram
from nnjit_studio.ui.state.state import SessionState
from nnjit_studio.ui.state.workload import INCUMBENT, NOT_TRIED, WorkloadProgress
from nnjit_studio.ui.widgets import text

DO = "do:"
"""Before the name of an action, in a link."""
SOURCES = 12
"""ONNX nodes that are listed; a group can hold thousands."""
Row = tuple[str, str]


@dataclass
class Known:
    """Results that concern the nodes of a model, and what was read from its files."""

    facts: Facts = field(default_factory=Facts)
    profile: ModelProfile | None = None
    diff: Diff | None = None
    records: Sequence[TuningRecord] = ()
    places: Collection[str] = ()
    """The docks that links may lead to."""
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """``op`` and attributes of ONNX nodes, by name."""
    attributes_problem: str = ""
    weights: Sequence[Histogram] = ()
    weights_problem: str = ""

    def link(self, where: str, words: str) -> str:
        """A link to a dock or action; empty where the window has no such dock."""
        there = where.startswith(DO) or where in self.places
        return f" &nbsp;<a href='{where}'>{words}</a>" if there else ""


def rows_of(unit: Unit, known: Known, state: SessionState) -> Iterator[Row]:
    """Name and value of each fact of a node or of a closed group."""
    for by in COLOUR_BY:
        value = by.value(known.facts, unit.nodes)
        if value is not None:
            yield escape(by.title), f"{escape(by.say(value))}{_aside(by.source)}"
    if unit.node is None:
        yield from _of_group(unit.nodes, known.facts, state)
        return
    assert state.model is not None
    yield from _of_tensors(unit.node, state.model.graph)
    yield from _of_sources(unit.node, known)
    workload = state.find(unit.node.workload)
    if workload is not None:
        yield from _of_kernel(unit.node, workload, known)
        yield "profile", _profiled(unit.node, known)
        yield "diff", _compared(unit.node, known)
        if known.weights_problem:
            yield "weights", _bad(known.weights_problem)
        for weight in known.weights:
            yield "weights", escape(describe(weight))


def passes_rows(passes: Sequence[GraphPass]) -> Iterator[Row]:
    """Graph passes of the import that changed the size of the model, and how many did not."""
    changed = [p for p in passes if p.before != p.after]
    for each in changed:
        yield f"pass {escape(each.name)}", f"{each.before} → {each.after} {escape(each.unit)}"
    if len(passes) > len(changed):
        yield "other passes", f"{len(passes) - len(changed)} ran and left the count as it was"


def _of_group(nodes: Sequence[Node], facts: Facts, state: SessionState) -> Iterator[Row]:
    yield "nodes", f"{len(nodes)}, fused from {sum(len(n.source) for n in nodes)} ONNX nodes"
    for op, count in Counter(n.op for n in nodes).most_common(SOURCES):
        yield f"{count} x", escape(op)
    red = {key for key, w in state.workloads.items() if warning_of(w)}
    marked = [n for n in nodes if n.workload in red]
    if marked and worth_a_mark(facts, marked):
        yield "avoidable", escape(", ".join(n.name for n in marked[:SOURCES]))


def _of_tensors(node: Node, graph: Graph) -> Iterator[Row]:
    for title, names in (("reads", node.inputs), ("writes", node.outputs)):
        for name in names:
            spec = graph.tensors.get(name)
            if spec is not None:
                shape = f"{text.shape(spec.shape)} {spec.dtype}, {text.nbytes(spec.nbytes)}"
                yield title, f"{escape(shape)}{_aside(name)}"


def _of_sources(node: Node, known: Known) -> Iterator[Row]:
    for name in node.source[:SOURCES]:
        attributes = dict(known.attributes.get(name, {}))
        op = attributes.pop("op", "")
        listed = ", ".join(f"{key}={value}" for key, value in attributes.items())
        yield "fused from", f"{escape(f'{op} {listed}')}{_aside(name)}"
    if known.attributes_problem:
        yield "attributes", _bad(known.attributes_problem)
    if len(node.source) > SOURCES:
        yield "", f"and {len(node.source) - SOURCES} more ONNX nodes"
    if node.flops:
        yield "operations", f"{text.count(node.flops)} FLOP a run"


def _of_kernel(node: Node, workload: WorkloadProgress, known: Known) -> Iterator[Row]:
    uses = workload.workload.uses
    words = escape(str(words_of(workload.workload.key)))
    key = _aside(workload.workload.name)
    yield "workload", f"{words}, used by {text.nodes(uses)}{key}"
    settings = workload.incumbent or "default"
    mine = [r for r in known.records if r.workload == node.workload]
    running = next((r for r in mine if r.settings == settings), None)
    code = f", {running.key.tier}, {text.nbytes(len(running.wasm))}" if running else ""
    yield "kernel", escape(f"{settings}{code}") + known.link(DO + "kernel", "inspect")
    if workload.candidates:
        rows = workload.rows()
        tried = [r for r in rows if r.state not in (NOT_TRIED, INCUMBENT)]
        best = max((r.gflops for r in rows if r.gflops), default=0.0)
        candidates = f"{len(rows)}, {len(tried)} tried, best {best:.1f} GFLOP/s"
    else:
        candidates = "none yet: F5 tunes" if workload.workload.tunable else "no lite space"
    yield "candidates", candidates + known.link("space", "show")
    yield "database", f"{len(mine)} rows" + known.link("database", "show")


def _profiled(node: Node, known: Known) -> str:
    steps = known.profile.steps if known.profile is not None else ()
    step = next((s for s in steps if s.node == node.name), None)
    if step is None:
        return "none yet" + known.link(DO + "profile", "profile (F6)")
    roof = "" if step.percent_of_roof is None else f", {step.percent_of_roof:.0f} % of the roof"
    bound = f", bound by {step.bound}" if step.bound else ""
    link = known.link("profile", "show")
    return f"{text.time(step.ms)}, IQR {text.time(step.iqr_ms)}{roof}{bound}{link}"


def _compared(node: Node, known: Known) -> str:
    found = [t for t in known.diff.tensors if t.node == node.name] if known.diff else []
    if not found:
        return "not compared yet" + known.link(DO + "diff_node", "compare (Shift+F7)")
    worst = max(t.max_rel for t in found)
    return f"largest error {worst:.2e} of its scale" + known.link("diff", "show")


def _aside(words: str) -> str:
    return f" <span class='name'>{escape(words)}</span>"


def _bad(words: str) -> str:
    return f"<span class='bad'>{escape(words)}</span>"


def describe(w: Histogram) -> str:
    """A weight in a line."""
    strange = f", {w.strange} NaN or infinite" if w.strange else ""
    some = "" if w.every == 1 else f" (of every {w.every} numbers one was read)"
    return (
        f"{w.tensor}: {text.shape(w.shape)} {w.dtype}, {w.low:.4g} to {w.high:.4g}, mean "
        f"{w.mean:.4g}, standard deviation {w.std:.4g}, {w.zeros:,} zeros{strange}{some}"
    )


MOST_SOURCES = 8


def cost_of(unit: Unit, by: ColourBy, facts: Facts) -> str:
    """The last line of a box: its time, and the value that it is coloured by."""
    value, ms = by.value(facts, unit.nodes), _times(unit, facts)
    if by.id == "delta" and value is not None:
        return f"{text.time(sum(ms) - value)} → {text.time(sum(ms))}"
    words = "" if value is None else by.say(value)
    return f"{text.time(sum(ms))}   {words}" if ms else words


def tip_of(unit: Unit, line: str, warning: str, facts: Facts, run: str, state: SessionState) -> str:
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
        lines.append(f"{text.time(sum(ms))}, {run}")
    if not unit.group:
        lines += _sources(unit)
    return "\n".join(lines)


def _times(unit: Unit, facts: Facts) -> list[float]:
    return [facts.ms[n.name] for n in unit.nodes if n.name in facts.ms]


def _of_node(node: Node, state: SessionState) -> Iterator[str]:
    yield str(words_of(node.workload)) if node.workload else node.op
    if not node.workload:
        return
    yield f"workload  {text.short_key(node.workload)}"
    workload = state.find(node.workload)
    if workload is not None:
        yield f"used by {text.nodes(workload.workload.uses)}"
        if workload.incumbent and state.code:
            yield f"{state.code} kernel  {workload.incumbent}"


def _sources(unit: Unit) -> Iterator[str]:
    names = list(dict.fromkeys(name for n in unit.nodes for name in n.source))
    if names:
        yield from ("", "ONNX nodes:", *names[:MOST_SOURCES])
    if len(names) > MOST_SOURCES:
        yield f"and {len(names) - MOST_SOURCES} more"
