"""Facts of nodes, and the ways to colour a graph by them. Knows no Qt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from nnjit_studio.analysis.backends import BackendComparison
from nnjit_studio.analysis.diff import Diff
from nnjit_studio.analysis.profile.findings import only_moves
from nnjit_studio.analysis.profile.records import ModelProfile
from nnjit_studio.analysis.profile.rows import bytes_moved
from nnjit_studio.model import Graph, Node, Workload
from nnjit_studio.ui.state.workload import WorkloadProgress
from nnjit_studio.ui.widgets import text

Values = Mapping[str, float]
Copies = Mapping[tuple[str, str], int]
"""Bytes that go from one device to the other, by the nodes that make them and read them."""
PRODUCTS = ("matmul", "batch_matmul", "conv")
BROKEN = ("failed", "wrong", "impossible")
WORTH_A_MARK = 1.0
"""Percent of the time from which a step that could be avoided is marked."""
LEAST_ERROR, MOST_ERROR = 1e-8, 1e-1
"""Ends of the scale of relative errors: float32 rounds at 6e-8, a tenth is plainly wrong."""


@dataclass(frozen=True)
class Run:
    """Milliseconds of nodes in a run, the peaks of the threads that ran them and the copies
    between them, as in :class:`Facts`, where they are known.
    """

    label: str
    ms: Values
    peak: Values = field(default_factory=dict)
    copies: Copies = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """By node's name: ``ms`` as of the last profile or timed run, ``peak`` in GFLOP/s of the
    threads that ran it, ``error`` as the largest relative one of its tensors.
    """

    ms: Values = field(default_factory=dict)
    peak: Values = field(default_factory=dict)
    nbytes: Values = field(default_factory=dict)
    error: Values = field(default_factory=dict)
    before: Run | None = None
    copies: Copies = field(default_factory=dict)

    @cached_property
    def total_ms(self) -> float:
        return sum(self.ms.values())


Value = Callable[[Facts, Sequence[Node]], "float | None"]


@dataclass(frozen=True)
class ColourBy:
    """One way to colour: a value of the nodes in a box, its text, and its scale.

    A value is told as ``number(value)`` and ``unit``; bytes bring their own.
    ``scale`` is ``heat`` (more is worse, from 0), ``good`` (more is better, from 0),
    ``bytes`` (logarithmic), ``error`` (logarithmic, fixed ends) or ``delta`` (around 0).
    ``missing`` tells how to get values while there are none, ``source`` where they come from.
    """

    id: str
    title: str
    scale: str
    value: Value
    number: Callable[[float], str]
    unit: str
    source: str
    missing: str

    def say(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}".rstrip()


def _ms(facts: Facts, nodes: Sequence[Node]) -> float | None:
    known = [facts.ms[n.name] for n in nodes if n.name in facts.ms]
    return sum(known) if known else None


def _share(facts: Facts, nodes: Sequence[Node]) -> float | None:
    ms = _ms(facts, nodes)
    return None if ms is None or not facts.total_ms else 100 * ms / facts.total_ms


def _gflops(facts: Facts, nodes: Sequence[Node]) -> float | None:
    counted = [n for n in nodes if n.flops and facts.ms.get(n.name)]
    ms = sum(facts.ms[n.name] for n in counted)
    return sum(n.flops for n in counted) / ms / 1e6 if ms else None


def _of_peak(facts: Facts, nodes: Sequence[Node]) -> float | None:
    counted = [n for n in nodes if n.flops and facts.ms.get(n.name) and facts.peak.get(n.name)]
    ms = sum(facts.ms[n.name] for n in counted)
    return 100 * sum(n.flops / facts.peak[n.name] for n in counted) / ms / 1e6 if ms else None


def _nbytes(facts: Facts, nodes: Sequence[Node]) -> float | None:
    known = [facts.nbytes[n.name] for n in nodes if n.name in facts.nbytes]
    return sum(known) if known else None


def _error(facts: Facts, nodes: Sequence[Node]) -> float | None:
    return max((facts.error[n.name] for n in nodes if n.name in facts.error), default=None)


def _delta(facts: Facts, nodes: Sequence[Node]) -> float | None:
    before = facts.before.ms if facts.before else {}
    both = [n.name for n in nodes if n.name in before and n.name in facts.ms]
    return sum(facts.ms[n] - before[n] for n in both) if both else None


COLOUR_BY = (
    ColourBy("share", "Share of time", "heat", _share, "{:.1f}".format, "%",
             "of the sum of all steps, in the last timed run",
             "until the model has run once (F5 or F6)"),
    ColourBy("gflops", "GFLOP/s", "good", _gflops, "{:.1f}".format, "GFLOP/s",
             "floating-point operations over the time of the last timed run",
             "until the model has run once (F5 or F6)"),
    ColourBy("peak", "% of peak", "good", _of_peak, "{:.0f}".format, "% of peak",
             "of the threads' measured multiply-add rate, see the profile",
             "until there is a profile (F6)"),
    ColourBy("bytes", "Memory", "bytes", _nbytes, text.nbytes, "",
             "bytes of all tensors that a step reads and writes, by their shapes",
             "until a model is open"),
    ColourBy("error", "Error", "error", _error, "{:.1e}".format, "relative",
             "largest error over the reference's largest magnitude, see the numerical diff",
             "until tensors were compared with ONNX Runtime (F7)"),
    ColourBy("delta", "Change of time", "delta", _delta, "{:+.3f}".format, "ms",
             "time of the run that is shown less that of the run chosen under Compare",
             "until there are two runs: choose one under Compare"),
)  # fmt: skip


def worth_a_mark(facts: Facts, nodes: Sequence[Node]) -> bool:
    """Whether nodes take so much of a measured run that a warning about them matters."""
    return (_share(facts, nodes) or 0.0) >= WORTH_A_MARK


def span(by: ColourBy, values: Sequence[float]) -> tuple[float, float]:
    """The ends of the scale for the values that are shown."""
    finite = [v for v in values if math.isfinite(v)]
    if by.scale == "error":
        return LEAST_ERROR, MOST_ERROR
    if by.scale == "delta":
        most = max((abs(v) for v in finite), default=0.0)
        return -most, most
    low = min((v for v in finite if v > 0), default=1.0) if by.scale == "bytes" else 0.0
    high = max(finite, default=0.0)
    return low, max(high, 100.0) if by.id == "peak" else high


def place(by: ColourBy, value: float, low: float, high: float) -> float:
    """Where a value stands between the ends of its scale, 0 to 1."""
    if by.scale in ("bytes", "error"):
        value, low, high = (math.log10(max(v, 1e-30)) for v in (value, low, high))
    if not high > low:
        return 0.5 if by.scale == "delta" else 1.0
    return min(max((value - low) / (high - low), 0.0), 1.0)


def nbytes_of(graph: Graph, workloads: Sequence[Workload]) -> Values:
    """Bytes that each node reads and writes; nothing of a raw graph, whose shapes are open."""
    by_key = {w.key: w for w in workloads}
    known = (n for n in graph.nodes if n.workload in by_key)
    return {n.name: float(bytes_moved(graph, n, by_key[n.workload])) for n in known}


def peaks_of(profile: ModelProfile | None) -> Values:
    steps = profile.steps if profile else ()
    return {s.node: 100 * s.gflops / s.percent_of_peak for s in steps if s.percent_of_peak}


def errors_of(diff: Diff) -> Values:
    worst: dict[str, float] = {}
    for tensor in diff.tensors:
        worst[tensor.node] = max(tensor.max_rel, worst.get(tensor.node, 0.0))
    return worst


def run_of_profile(profile: ModelProfile, label: str, graph: Graph) -> Run:
    """The steps of a saved profile that this graph has too, by name."""
    names = {node.name for node in graph.nodes}
    ms = {s.node: s.ms for s in profile.steps if s.node in names}
    return Run(label, ms, peaks_of(profile), copies_of(profile, graph))


def copies_of(profile: ModelProfile, graph: Graph) -> Copies:
    """What goes between nodes that ran on different devices; nothing where all ran on one."""
    device = {s.node: s.device for s in profile.steps}
    maker = {out: node.name for node in graph.nodes for out in node.outputs}
    found: dict[tuple[str, str], int] = {}
    for node in graph.nodes:
        for name in dict.fromkeys(node.inputs):
            made = maker.get(name, node.name)
            if device.get(made) != device.get(node.name):
                edge = made, node.name
                found[edge] = found.get(edge, 0) + graph.tensors[name].nbytes
    return found


def runs_of_backends(found: BackendComparison) -> list[Run]:
    """Wasm and WebGPU, each as a run to compare with."""
    return [
        Run("Wasm, as compared last", {s.node: s.wasm_ms for s in found.steps}),
        Run("WebGPU, as compared last", {s.node: s.webgpu_ms for s in found.steps}),
    ]


def warning_of(workload: WorkloadProgress) -> str:
    """Why the nodes of a workload are marked in red; empty for most."""
    kind = workload.workload.kind
    if only_moves(kind):
        return "Only moves data: an export in the layout that is needed may save it."
    if kind.startswith(PRODUCTS) and not workload.workload.tunable:
        return "Falls back to its default kernel: this product has no schedule template."
    tried = [row for row in workload.candidates.values() if row.state in BROKEN or row.ms]
    if tried and all(row.state in BROKEN for row in tried):
        return f"Falls back to its default kernel: all {len(tried)} candidates tried were broken."
    return ""


BEFORE = "Before tuning"


class RunFacts:
    """``shown`` are the facts of the run under Show, ``other`` those of the one under Compare."""

    def __init__(self) -> None:
        self.shown, self.other = Facts(), Facts()
        self.profile: ModelProfile | None = None
        self.errors: dict[str, float] = {}
        self._copies: Copies = {}
        self._profiles = 0

    def take(self, result: object, graph: Graph) -> list[Run] | None:
        """The runs that a job's result brings; None where it says nothing of nodes."""
        if isinstance(result, ModelProfile):
            self.profile, self._copies = result, copies_of(result, graph)
            self._profiles += 1
            label = f"Profile {self._profiles}: {result.target}, {result.tier}, "
            return [run_of_profile(result, f"{label}{result.warm.median_ms:.2f} ms", graph)]
        if isinstance(result, Diff):
            self.errors.update(errors_of(result))
            return []
        return runs_of_backends(result) if isinstance(result, BackendComparison) else None

    def before(self, ms: Values) -> Run | None:
        """The first timed run since the model was opened or its tuning began."""
        return Run(BEFORE, ms, peaks_of(self.profile)) if ms else None

    def learn(
        self, ms: Values, nbytes: Values, shown: Run | None, compared: Run | None
    ) -> tuple[str, str]:
        """Take what is known now; returns the lines above the other and the shown graph.

        Parameters
        ----------
        ms
            Of the nodes in the last timed run.
        nbytes
            That each node reads and writes.
        shown, compared
            The runs that are chosen; None for the present run, and for no comparison.
        """
        now = Run("Now", ms, peaks_of(self.profile), self._copies)
        run = shown or now
        errors = self.errors if run is now else {}
        self.shown = Facts(run.ms, run.peak, nbytes, dict(errors), compared, run.copies)
        other = compared or Run("Choose a run under Compare", {})
        self.other = Facts(other.ms, other.peak, nbytes, copies=other.copies)
        return _caption(other, self.other), _caption(run, self.shown)


def _caption(run: Run, facts: Facts) -> str:
    return run.label + (f": {text.latency(facts.total_ms)} ms, all steps" if run.ms else "")
