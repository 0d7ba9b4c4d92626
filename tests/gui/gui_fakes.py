"""A workbench that plays a session, and models of any size for it."""

from __future__ import annotations

import contextlib
import itertools
import random
import statistics
import threading
import time
import zlib
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType

import numpy as np
from advices import ADVICE, SET, measured
from PySide6.QtWidgets import QLabel
from verdicts import ALONE, FASTER, NO_PEER, TURBO
from waiting import PATIENCE_S

from nnjit_studio.advice.errors import judge
from nnjit_studio.advice.records import MEASURED, MEASURING
from nnjit_studio.analysis.backends import BackendComparison, Side, StepPair
from nnjit_studio.analysis.diff import TOLERANCE, Diff, Missing, Placed, TensorDiff, compare
from nnjit_studio.analysis.kernel.kernel import inspect_kernel
from nnjit_studio.analysis.profile.memory import MeasuredMemory
from nnjit_studio.analysis.profile.records import ModelProfile, Steady, StepProfile
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
from nnjit_studio.compiler.process.inspection import kernel_texts
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.database import Measurement
from nnjit_studio.device.measured import COPY, LATENCY, READ, SPILL, Curve, MeasuredDevice
from nnjit_studio.device.primitives import PRIMITIVES, Effect
from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts
from nnjit_studio.foreign_wasm.inspection.hotspots.records import Hotspot, Hotspots
from nnjit_studio.generation.session import TextBegun, TextEnded, TextRequest, TokenMade
from nnjit_studio.model import (
    Graph,
    ImportOptions,
    Node,
    Plan,
    PlanStep,
    TensorSpec,
    Token,
    Workload,
)
from nnjit_studio.model.memory import forecast
from nnjit_studio.model.native_run import NativeRun, NodeTime
from nnjit_studio.model.survey import InputPort, Survey
from nnjit_studio.records import DeviceProfile, KernelKey, TuningRecord
from nnjit_studio.records.backend import WASM, Backend
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.estimate import Ratio
from nnjit_studio.records.gain import ModelGain
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space.lite_space import Verdict
from nnjit_studio.tuner import events as ev
from nnjit_studio.verdict.result import Row
from nnjit_studio.workbench.jobs.diff import TensorValues
from nnjit_studio.workbench.jobs.page_form import PageForm
from nnjit_studio.workbench.jobs.refused import RefusedRun


@dataclass(frozen=True)
class FakeModel:
    """The fields of an opened model."""

    path: Path
    graph: Graph
    workloads: tuple[Workload, ...]
    plan: Plan
    weights: Path = Path("weights.bin")
    packable: frozenset[str] = frozenset()
    generation: None = None
    importing: ImportOptions = field(default_factory=ImportOptions)
    import_ms: dict[str, float] = field(default_factory=lambda: {"parse": 400.0, "fuse": 700.0})

    feeds: dict = field(default_factory=dict)

    @property
    def opened(self):
        """Itself: it plays the open model on its page too."""
        return self


class Builder:
    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.tensors: dict[str, TensorSpec] = {}
        self.workloads: dict[str, Workload] = {}

    def tensor(self, name: str, *shape: int, dtype: str = "f32") -> str:
        self.tensors[name] = TensorSpec(name, shape, dtype)
        return name

    def node(self, kind, dims, out, inputs, shape, epilogue=(), source=()) -> str:
        tunable = kind in ("matmul", "batch_matmul")
        flops = 2 * dims[-1] * dims[-2] * dims[-3] if tunable else 8 * dims[-1] * dims[0]
        if kind == "batch_matmul":
            flops *= dims[0]
        probe = Workload(
            kind, dims, "f32", epilogue, f"{zlib.crc32(f'{kind} {dims}'.encode()):012x}"
        )
        uses = self.workloads[probe.name].uses + 1 if probe.name in self.workloads else 1
        w = Workload(kind, dims, "f32", epilogue, probe.fingerprint, uses, flops, tunable)
        self.workloads[probe.name] = w
        self.tensor(out, *shape)
        op = " + ".join((kind, *epilogue))
        self.nodes.append(
            Node(f"n{len(self.nodes)}", op, tuple(inputs), (out,), w.key, tuple(source), flops)
        )
        return out

    def build(self, path: Path, inputs, outputs, weights_bytes=0) -> FakeModel:
        graph = Graph(
            self.name, tuple(inputs), tuple(outputs), tuple(self.nodes), dict(self.tensors)
        )
        steps = tuple(PlanStep("call", n.workload, (), n.name) for n in self.nodes)
        plan = Plan(self.name, (), (), (), (*steps, PlanStep("return")), weights_bytes, 0)
        return FakeModel(path, graph, tuple(self.workloads.values()), plan)


GAIN = 1.25
"""Of the model, by pairs."""


def small_model(path: Path = Path("tiny.onnx")) -> FakeModel:
    """Four nodes, three workloads, a residual connection."""
    b = Builder("tiny")
    b.tensor("x", 8, 16)
    b.tensor("w", 16, 16)
    a = b.node("matmul", (8, 16, 16), "a", ["x", "w"], (8, 16), ("bias",), ["/fc1/MatMul"])
    c = b.node("matmul", (8, 16, 16), "b", [a, "w"], (8, 16), ("bias",), ["/fc2/MatMul"])
    s = b.node("add", (8, 16), "c", [a, c], (8, 16), (), ["/add/Add"])
    b.node("matmul", (8, 16, 4), "y", [s, "w"], (8, 4), (), ["/head/MatMul"])
    return b.build(path, ["x"], ["y"])


def encoder_model(path: Path, layers: int = 6, tokens: int = 128, width: int = 384) -> FakeModel:
    """A transformer encoder after fusion, about a dozen nodes a layer."""
    b = Builder("all-MiniLM-L6-v2")
    heads, head = 12, width // 12
    ids = b.tensor("input_ids", 1, tokens, dtype="i64")
    mask = b.tensor("attention_mask", 1, tokens, dtype="i64")
    row = (tokens, width)
    x = b.node("take + add", row, "emb", [ids], row, (), ["/embeddings/Gather", "/embeddings/Add"])
    x = b.node("layer_norm", row, "emb_n", [x], row, (), ["/embeddings/LayerNorm"])
    bias = b.node("cast + mul", (1, tokens), "mask_bias", [mask], (1, 1, 1, tokens), (), ["/Cast"])
    for i in range(layers):
        at = f"/encoder/layer.{i}"
        q, k, v = (
            b.node(
                "matmul", (tokens, width, width), f"{n}{i}", [x], (1, heads, tokens, head),
                ("bias",), [f"{at}/{n}/MatMul", f"{at}/{n}/Add"],
            )
            for n in ("query", "key", "value")
        )  # fmt: skip
        s = b.node(
            "batch_matmul", (heads, tokens, head, tokens), f"qk{i}", [q, k],
            (heads, tokens, tokens), (), [f"{at}/MatMul"],
        )  # fmt: skip
        s = b.node(
            "softmax", (heads, tokens, tokens), f"sm{i}", [s, bias], (heads, tokens, tokens),
            (), [f"{at}/Add", f"{at}/Softmax"],
        )  # fmt: skip
        s = b.node(
            "batch_matmul", (heads, tokens, tokens, head), f"av{i}", [s, v], row, (),
            [f"{at}/MatMul_1", f"{at}/Transpose"],
        )  # fmt: skip
        s = b.node(
            "matmul", (tokens, width, width), f"o{i}", [s, x], row, ("bias", "add"),
            [f"{at}/out/MatMul", f"{at}/out/Add", f"{at}/Add_1"],
        )  # fmt: skip
        x = b.node("layer_norm", row, f"n1_{i}", [s], row, (), [f"{at}/LayerNorm"])
        f = b.node(
            "matmul", (tokens, width, 4 * width), f"f{i}", [x], (tokens, 4 * width),
            ("bias", "gelu"), [f"{at}/inter/MatMul", f"{at}/inter/Erf"],
        )  # fmt: skip
        f = b.node(
            "matmul", (tokens, 4 * width, width), f"g{i}", [f, x], row, ("bias", "add"),
            [f"{at}/output/MatMul", f"{at}/output/Add"],
        )  # fmt: skip
        x = b.node("layer_norm", row, f"n2_{i}", [f], row, (), [f"{at}/output/LayerNorm"])
    b.node("mean", (1, width), "pooled", [x, mask], (1, width), (), ["/ReduceMean"])
    return b.build(path, ["input_ids", "attention_mask"], ["pooled"], 87_240_192)


def candidates() -> list[str]:
    tiles = itertools.product((4, 8, 16), (4, 6, 8), (1, 4))
    return [str(Candidate(x, y, r, 4 * x, 4 * y, 384)) for x, y, r in tiles]


def play(model: FakeModel, seed: int = 1):
    """Events of a believable session, with every kind of outcome."""
    rng = random.Random(seed)
    t = 0.0
    tunable = sorted(
        (w for w in model.workloads if w.tunable), key=lambda w: -w.flops * w.uses
    )  # fmt: skip
    names = {w.key: w for w in model.workloads}
    rate = {w.key: 11.0 if w.tunable else 1.5 for w in model.workloads}

    def timed():
        steps = [
            names[n.workload].flops / rate[n.workload] / 1e6 * rng.uniform(0.97, 1.03)
            for n in model.graph.nodes
        ]
        return ev.ModelTimed(t, sum(steps), (sum(steps),) * 5, tuple(steps))

    yield ev.SessionStarted(t, model.graph.name, tuple(w.key for w in tunable), {"target": "emb"})
    t = 0.8
    before = timed()
    yield before
    settings = candidates()
    reasons = [f"x0*y0 fills {4 + i % 11} of 16 registers" for i in range(len(settings))]
    for w in tunable:
        yield ev.SpaceBuilt(t, w.key, tuple(settings), tuple(reasons), 1_207_959_552, 7)
    best = {w.key: ("default", 11.0) for w in tunable}
    for number, (i, w) in enumerate(itertools.product(range(14), tunable), 1):
        candidate = settings[(i * 5) % len(settings)]
        t += rng.uniform(0.03, 0.09)
        yield ev.Compiled(t, w.key, candidate, 4.1, 900)
        t += rng.uniform(0.03, 0.09)
        held = best[w.key][1]
        speed = rng.uniform(9, 34) * (1 + min(i, 8) / 9)
        state, reason = "slower", "slower than the incumbent with 95 % confidence"
        if i % 9 == 4:
            state, reason, speed = "wrong", "error 3.1 times the bound", 0.0
        elif speed > held * 1.03:
            state, reason = "won", "the interval excludes 1 and the gain is over 3 %"
        ms = w.flops / speed / 1e6 if speed else 0.0
        up = speed / held
        yield ev.Measured(
            t, w.key, candidate, state, reason, speed, ms, (ms,) * 6, up, up * 0.97, up * 1.03, 0.2
        )
        if state == "won":
            yield ev.Swapped(t, w.key, candidate, held, speed)
            best[w.key] = (candidate, speed)
            rate[w.key] = speed
        held = best[w.key][1]
        yield ev.RoundDone(t, w.key, i + 1, candidate, speed, held, best[w.key][0], 17 - i)
        if number % 10 == 0:
            yield timed()
    first = tuple(before.ms * (1 + 0.01 * (i % 3)) for i in range(12))
    tuned = tuple(ms / GAIN for ms in first)
    gain = ModelGain.of(Ratio.of(first, tuned), 0.97)
    yield ev.MachineSeen(t, 0.97)
    yield ev.ModelCompared(t, first, tuned, gain)
    yield ev.Finished(
        t, "time", model.graph.name,
        {"before": statistics.median(first), "after": statistics.median(tuned)},
        {"median": 4.1, "p99": 9.0}, t * 0.8, (), {"target": "emb"}, gain=gain,
        outcomes={"won": 2, "slower": 9, "not told apart": 5}, kept=2, of_peak=0.84,
    )  # fmt: skip


def record(workload: Workload, settings: str, state: str, gflops: float, day: int) -> TuningRecord:
    device = DeviceProfile("epyc-2c-a91f", "embedded")
    ms = workload.flops / gflops / 1e6 if gflops else 0.0
    return TuningRecord(
        KernelKey.of(workload, device, "relaxed-simd", "1"), workload.key, settings, state, ms,
        gflops, (ms,) * 6, "00" * 32, b"", (), 1, 4.0, "QtWebEngine 6.12", "", 0.1,
        f"2026-11-{day:02d}T09:30:12.125+00:00",
    )  # fmt: skip


def measured_device() -> MeasuredDevice:
    """What a quiet x64 machine with 48 KiB and 2 MiB of cache gives."""
    sizes = [s for p in range(12, 25) for s in (1 << p, 3 << (p - 1))]

    def rate(n):
        return min(1.0, n / 8) * (1 if n <= 12 else 0.72 - 0.003 * n) * 56

    def latency(size):
        return 1.5 if size <= 48 << 10 else 4.6 if size <= 2 << 20 else 34.0

    def curve(x, value):
        return Curve(tuple(x), tuple((value(n), value(n) * 1.01, value(n) * 1.03) for n in x))

    effects = []
    for number, primitive in enumerate(PRIMITIVES):
        for setting in primitive.settings[1:]:
            speed = 0.4 + 0.07 * number
            effects.append(Effect(primitive.name, setting, speed, speed - 0.02, speed + 0.02))
    return MeasuredDevice(
        "epyc-2c-a91f", "embedded", "relaxed-simd", "2026-11-21T09:30:12.125+00:00",
        "Some Processor", "QtWebEngine 6.12", "", 2, 0.005, {"relaxed-simd": 55.0},
        {"compiler": "4"}, 3,
        {
            SPILL: curve(range(4, 41), rate), LATENCY: curve(sizes, latency),
            READ: curve((1, 2), lambda n: 11.0 * n), COPY: curve((1, 2), lambda n: 9.0 * n),
        },
        tuple(effects), {"registers": 1.0, "caches": 0.8, "bandwidth": 0.6, "primitives": 3.0},
    )  # fmt: skip


COLD_MS = {
    "reading the model": 410.0, "importing and fusing": 820.0, "planning memory": 30.0,
    "loading weights into the page": 240.0, "compiling kernels": 350.0,
    "registering kernels in the page": 60.0, "first run": 90.0,
}  # fmt: skip


def profile_of(model: FakeModel, cold_ms=MappingProxyType({})) -> ModelProfile:
    """Believable times of every step; the slowest is the one with the most FLOPs."""
    workloads = {w.key: w for w in model.workloads}
    raw_ms = [
        n.flops / (30e6 if workloads[n.workload].tunable else 2e6) + 0.004
        for n in model.graph.nodes
    ]
    steps = tuple(
        StepProfile(
            node=n.name, op=n.op, workload=workloads[n.workload].name, source=n.source, ms=ms,
            iqr_ms=ms / 40, share=ms / sum(raw_ms), flops=n.flops, nbytes=1 << 16,
            gflops=n.flops / ms / 1e6, gbytes_per_s=(1 << 16) / ms / 1e6, threads=1,
            intensity=n.flops / (1 << 16), percent_of_peak=n.flops / ms / 55e4,
            bound="compute" if workloads[n.workload].tunable else "memory",
            percent_of_roof=n.flops / ms / 55e4 if workloads[n.workload].tunable else None,
        )
        for n, ms in zip(model.graph.nodes, raw_ms, strict=True)
    )  # fmt: skip
    total = sum(raw_ms) * 1.01
    return ModelProfile(
        model.graph.name, "embedded", "fake/1", 1, "relaxed-simd", 55.0, 11.0,
        dict(cold_ms), Steady(total, total * 0.98, total * 0.02, 20, total * 0.99, total * 1.01),
        MeasuredMemory(
            forecast(model.plan), forecast(model.plan).wasm_bytes, None, None,
            tuple(1 << (16 + i % 5) for i in range(len(steps))),
        ),
        steps,
    )  # fmt: skip


def diff_of(model: FakeModel, name: str = "", off: str = "n1") -> Diff:
    """All is within the tolerance but what comes from the step ``off`` on; that one has a NaN."""
    places = {n.name: i for i, n in enumerate(model.graph.nodes)}
    found = []
    for place, node in enumerate(model.graph.nodes):
        if name not in ("", node.name):
            continue
        spec = model.graph.tensors[node.outputs[0]]
        bad = place >= places.get(off, len(places))
        first = node.name == off
        rel = float("inf") if first else 2.5e-2 / (place + 1) if bad else 3.1e-7
        found.append(
            TensorDiff(
                spec.name, node.name, node.op, place, spec.shape, spec.dtype, rel * 4, 4.0, rel,
                0.98 if bad else 0.999999999, (3, 0) if first else (0, 0), (0, 0),
                (0,) * len(spec.shape), float("nan") if first else 1.5, 1.25,
            )
        )  # fmt: skip
    lost = Missing(
        "inner", "/fc1/MatMul", "fused", f"fused into step {model.graph.nodes[0].name!r}"
    )
    found.sort(key=lambda t: (-t.max_rel, t.position))
    return Diff(model.graph.name, TOLERANCE, tuple(found), () if name else (lost,))


def comparison_of(model: FakeModel) -> BackendComparison:
    """Wasm is faster: the GPU's kernels are, but its transfers eat that up."""
    steps = tuple(StepPair(n.name, n.workload, 0.5, 0.1) for n in model.graph.nodes)
    times = tuple(s.wasm_ms for s in steps), tuple(s.webgpu_ms for s in steps)
    whole = sum(times[0])
    wasm = Side(
        "wasm", "embedded", "simd128", 1, "", False, Steady(whole, whole, 0, 9), 0.0, 0.0, times[0]
    )
    slow = Steady(4 * whole, 4 * whole, 0, 9)
    gpu = Side(
        "webgpu", "embedded+wgpu", "wgsl", 1, "Some GPU", False, slow, whole, whole, times[1]
    )
    return BackendComparison(model.graph.name, wasm, gpu, steps, 1.0)


class Texts:
    """Kernels of a matmul of the workload's shape, compiled in this process."""

    def texts(self, workload, candidate, tier):
        program = program_for(f"matmul:{'x'.join(map(str, workload.dims))}:f32")
        return kernel_texts(workload.key, program, candidate, tier, OPTIONAL_PASSES)


def inspection_of(workload: Workload, settings: str = "", gpu: GpuProfile | None = None):
    """The real inspection of a matmul; without settings of its default schedule."""
    candidate = None if settings in ("", "default") else parse_candidate(settings)
    device = DeviceProfile(
        "some", "embedded", gpu=gpu, tiers=("wgsl",) if gpu else ("relaxed-simd",),
        peak_gflops={"relaxed-simd": 55.0},
    )  # fmt: skip
    return inspect_kernel(Texts(), workload, candidate, device, True, {1: 11.0})


def survey_of(path, graph, ports=()):
    """A file's look: the raw graph has the nodes of the model, without workloads."""
    nodes = tuple(replace(n, workload="", op=f"raw {n.op}") for n in graph.nodes)
    raw = replace(graph, nodes=nodes)
    return Survey(path, sha256(path.name.encode()).hexdigest(), 1 << 20, 17, tuple(ports), raw)


HOTSPOTS = Hotspots(
    "Chromium 156",
    (Hotspot("x.wasm", 7, "", 600.0, 700.0, 0.6, FunctionFacts(7, 900, "", spills=3)),),
    1000.0, {"wasm": 900.0, "javascript": 100.0}, 1, {"x.wasm": 4096},
)  # fmt: skip


class FakeWorkbench:
    """Plays all parts of a workbench, its jobs by the names of their functions.

    Tuning plays ``script`` (events); with ``hold`` it waits for ``release`` or cancel at the end,
    with ``rests`` for a pause after its first round.
    """

    url = "http://127.0.0.1:1/"
    sandbox = Sandbox("--no-sandbox")

    def __init__(self, model: FakeModel) -> None:
        self.page = self.tuning = self.process = self
        self.model = model
        self.script: list[ev.Event] = list(play(model))
        self.hold = False
        self.rests = False
        self.open_error: Exception | None = None
        self.holds_import = False
        self.ran_refused: list[object] = []
        self.module: Path | None = None
        self.survey_error: Exception | None = None
        self.refused_operators = ()
        self.ports: tuple[InputPort, ...] = ()
        self.fed: list[object] = []
        self.importing = ImportOptions()
        self.fails_in_page = False
        self.tune_error: Exception | None = None
        self.pace_s = 0.0
        self.stored: list[TuningRecord] = []
        self.release = threading.Event()
        self.cancelled = threading.Event()
        self.hold_verdict, self.verdicts_begun = False, 0
        self.tuned_seconds: list[float | None] = []
        self.rest = iter(self.script)
        self.pausing = self.serves = False
        self.asked: list[tuple[str, object]] = []
        self.tried: list[tuple[str, str]] = []
        self.requested: list[tuple[str, str]] = []
        self.device: MeasuredDevice | None = None
        self.compared: list[str] = []
        self.profiled: list[bool] = []
        self.off = "n1"
        self.inspected: list[tuple[str, str]] = []
        self.inspect_error: Exception | None = None
        self.kept: list[tuple[str, str]] = []
        self.backend = WASM
        self.importing, self.threads, self.hold_advice = ImportOptions(), 1, False
        self.backends: list[Backend] = []
        self.database = FakeRecords(self)
        self.verdict_found = None
        self.job_error: Exception | None = None
        self.sets: list[tuple[object, str]] = []
        self.set_error = 1e-3
        self.pages_expected: list[tuple[bool, str]] = []

    def run(self, job, *args, **given):
        return getattr(self, job.__name__)(*args, **given)

    def expect(self, comes, lost):
        self.pages_expected.append((comes, lost))

    def survey(self, path):
        if self.survey_error is not None:
            raise self.survey_error
        return survey_of(path, self.model.graph, self.ports)

    def obstacles(self, path):
        return self.refused_operators

    def run_refused(self, refused, visits, peer, effort, before, module):
        """Plays a run in three steps: nothing known, the verdict, everything."""
        self.cancelled.clear()
        self.ran_refused.append((refused, module))
        native = NativeRun(12.5, 10, (NodeTime("conv", "Conv", 9.0),), {"y": np.zeros((1, 2))})
        begun = replace(TURBO if module else ALONE, absent=refused.why)
        if peer is None:
            yield RefusedRun(replace(begun, rows=(Row("ort"),), versions={}), native=native)
            return
        yield RefusedRun(replace(begun, phase="measuring"), native=native)
        if self.job_error is not None:
            raise self.job_error
        nodes = {"ort": (NodeTime("foo", "Foo", 30.0), NodeTime("conv", "Conv", 10.0))}
        if module:
            nodes["turbo"] = (NodeTime("conv", "Conv", 5.0),)
        yield RefusedRun(begun, "", native, nodes=nodes, functions=HOTSPOTS)

    def faster_module(self, peer):
        return self.module

    def make_refused_faster(self, peer, on_phase):
        on_phase("function 7, loop 1: best 1.50x")
        self.module = Path("turbo.wasm")
        return self.module

    def open_model(self, path, on_phase, feeds=None, on_imported=lambda model: None):
        self.cancelled.clear()
        self.fed.append(feeds)
        on_phase("Reading the model")
        while self.holds_import:
            if self.cancelled.wait(0.01):
                raise UserError("Opening the model was cancelled.")
        model = replace(self.model, path=path)
        if self.open_error is not None and not self.fails_in_page:
            raise self.open_error
        on_imported(model)
        if self.open_error is not None:
            self.release.wait(PATIENCE_S)
            raise self.open_error
        return model

    def start(self, seconds=None, *, serve=None):
        self.cancelled.clear()
        self.tuned_seconds.append(seconds)
        self.serves = serve is not None
        if serve:
            self.asked.append(("serve", serve))
        self.rest = iter(self.script)
        yield from self._play()

    def pause(self, pausing=True):
        self.pausing = pausing
        return True

    def resume(self, stop=False):
        self.cancelled.clear()
        yield ev.Resumed(1.0, 2.0)
        if stop:
            self.rest = iter([replace(self.script[-1], reason="cancelled")])
        yield from self._play()

    def set_seconds_left(self, seconds):
        self.asked.append(("seconds", seconds))
        return True

    def seconds_left(self):
        return self.tuned_seconds[-1] if self.tuned_seconds else None

    def set_serving_budget(self, share):
        self.asked.append(("share", share))

    def _play(self):
        for event in self.rest:
            if self.cancelled.is_set():
                break
            if self.pace_s:
                time.sleep(self.pace_s)
            yield event
            if not isinstance(event, ev.RoundDone):
                continue
            while self.rests and not self.pausing and not self.cancelled.wait(0.005):
                pass
            if self.pausing:
                self.pausing = self.rests = False
                yield ev.Paused(event.t_s)
                return
        else:
            if self.tune_error is not None:
                raise self.tune_error
            while self.hold and not self.release.is_set() and not self.cancelled.wait(0.01):
                pass
        if self.serves:
            self.asked.append(("rest", None))

    def explain(self, workload, settings):
        candidate = Candidate.parse(settings)
        fits = candidate.y0 * candidate.x0 <= 64
        return [
            Verdict("simd_width", True, "x0 in vectors"),
            Verdict("registers", fits, f"Reg_thread {candidate.y0 * candidate.x0} of 64"),
        ]

    def inspect(self, workload, settings):
        self.inspected.append((workload, settings))
        if self.inspect_error is not None:
            raise self.inspect_error
        found = next(w for w in self.model.workloads if w.key == workload)
        return inspection_of(found, settings)

    def run_kernel(self, workload, settings):
        self.cancelled.clear()
        self.kept.append((workload, settings))
        yield ev.Swapped(0.0, workload, settings, 30.0, 28.0, from_database=True)

    def try_candidate(self, workload, settings):
        self.cancelled.clear()
        self.tried.append((workload, settings))
        yield ev.Compiled(0.1, workload, settings, 1.5, 900)
        yield ev.Measured(0.2, workload, settings, "slower", "0.93x, not enough", 41.5, 2.0)

    def measure_device(self, on_phase):
        self.cancelled.clear()
        on_phase("measuring the device, 1 of 4: vector registers")
        while self.hold and not self.release.is_set():
            if self.cancelled.wait(0.01):
                raise UserError("Measuring the device was cancelled.")
        self.device = measured_device()
        return self.device

    def profile(self, on_phase, *, cold=False):
        self.profiled.append(cold)
        self._work("profiling", on_phase, "timing every step")
        return profile_of(self.model, COLD_MS if cold else {})

    def diff(self, name, on_phase):
        self.compared.append(name)
        self._work("the comparison", on_phase, "starting native ONNX Runtime")
        return diff_of(self.model, name, self.off)

    def _work(self, what, on_phase, phase):
        self.cancelled.clear()
        on_phase(phase)
        if self.job_error is not None:
            raise self.job_error
        while self.hold and not self.release.is_set():
            if self.cancelled.wait(0.01):
                raise UserError(f"{what.capitalize()} was cancelled.")

    def verdict(self, visits, peer, effort, before):
        """Plays a verdict of two steps; with ``hold_verdict`` it waits for cancel between them."""
        self.cancelled.clear()
        self.verdicts_begun += 1
        found = self.verdict_found or (FASTER if peer else NO_PEER)
        yield replace(found, phase="measuring", pairs=7)
        while self.hold_verdict:
            if self.cancelled.wait(0.01):
                raise UserError("The comparison was cancelled.")
        if self.job_error is not None:
            raise self.job_error
        yield found

    def advise(self, visits, options, on_phase):
        """Plays a list in two steps; with ``hold_advice`` it waits for cancel between them."""
        self.cancelled.clear()
        yield replace(ADVICE, phase="measuring: Weights in f16")
        if self.hold_advice:
            on_phase("8-bit products: trying products in 8 bits, 3 of 64")
        while self.hold_advice:
            if self.cancelled.wait(0.01):
                raise UserError("The advice was cancelled.")
        yield ADVICE

    def measure_in_use(self, visits, plain, title, options):
        """Plays a set of rows that is measured in two steps."""
        self.cancelled.clear()
        self.sets.append((plain, title))
        begun = replace(SET, title=title, state=MEASURING)
        yield begun
        while self.hold_advice:
            if self.cancelled.wait(0.01):
                raise UserError("Measuring was cancelled.")
        found = measured(9.0, 2.2, self.set_error)
        yield replace(begun, state=MEASURED, measured=found, guard=judge(found.outputs, 1, 1e-2))

    def feed(self, arrays):
        self.model.feeds.clear()
        self.model.feeds.update(arrays)

    def tensor(self, name, on_phase):
        node = next(n for n in self.model.graph.nodes if name in n.outputs)
        spec = TensorSpec(name, (2, 3, 4), "f32")
        values = np.arange(24, dtype=np.float32).reshape(spec.shape)
        row = compare(Placed(spec, node, 0, 0, 0), values, values + 0.5)
        return TensorValues(name, node.name, values, values + 0.5, row)

    def apply_row(self, row, out, force, on_phase):
        out.write_bytes(b"made by a recipe")
        return out

    def take_form(self, form):
        before = PageForm.of(self)
        self.importing, self.threads = form.importing, form.threads
        self.backend = form.backend
        return before

    def webgpu(self):
        return Backend("webgpu", "navigator")

    def confinement(self):
        return ("files", "network")

    @contextlib.contextmanager
    def cancellable(self, what, on_phase):
        self.cancelled.clear()
        yield on_phase

    def connect(self):
        while self.hold and not self.release.is_set():
            if self.cancelled.wait(0.01):
                raise UserError("The look was cancelled.")
        return DeviceProfile("some", "embedded", peak_gflops={"simd128": 40.0})

    def measured_device(self):
        return self.device

    def prefer(self, backend):
        self.backend = backend

    def use_backend(self, backend, on_phase):
        self.backends.append(backend)
        self._work("changing the backend", on_phase, "loading weights into the page")
        self.backend = backend
        gpu = GpuProfile(description="Some GPU") if backend.is_gpu else None
        return DeviceProfile("some", "embedded+wgpu" if gpu else "embedded", gpu=gpu)

    def compare_backends(self, on_phase):
        self._work("the comparison", on_phase, "timing WebGPU")
        return comparison_of(self.model)

    def request(self, workload, settings):
        self.requested.append((workload, settings))
        return True

    def onnx_attributes(self, path):
        names = (name for n in self.model.graph.nodes for name in n.source)
        return {name: {"op": name.rsplit("/")[-1], "axis": "-1"} for name in names}

    def cancel(self):
        self.cancelled.set()

    end = cancel

    def export(self, out, on_phase):
        if not out.parent.is_dir():
            raise UserError(f"{out.parent.name} is not a folder.", "Choose another place.")
        out.write_bytes(b"zip")
        return out

    def report(self, out):
        out.write_text("<html>")
        return out

    def records(self):
        return self.stored

    def badges(self):
        return [] if self.sandbox.on else [("no sandbox", f"The sandbox is {self.sandbox}.")]


class FakeRecords:
    """The workbench's ``stored`` as lines of a table."""

    def __init__(self, workbench: FakeWorkbench) -> None:
        self._workbench = workbench
        self.path = Path("kernels.db")

    def measurements(self, after=0):
        lines = [Measurement.of(i, r) for i, r in enumerate(self._workbench.stored, 1)]
        return [line for line in lines[::-1] if line.id > after]


class FakeTexts:
    """Counts up from the prompt's last id; with ``hold`` it makes tokens until the cancel."""

    def __init__(self, workbench: FakeWorkbench) -> None:
        self.workbench = workbench
        self.hold = False
        self.error: Exception | None = None
        self.requests: list[TextRequest] = []
        self.forgotten = 0

    def generate(self, request, on_phase):
        self.requests.append(request)
        self.workbench.cancelled.clear()
        on_phase("reading the model")
        if self.error is not None:
            raise self.error
        yield TextBegun(request, 1024, 128)
        on_phase("making text")
        count = itertools.count() if self.hold else range(request.sampling.max_tokens)
        made = 0
        for made, index in enumerate(count, 1):
            if self.workbench.cancelled.is_set():
                yield TextEnded("cancelled", made - 1, 1 << 20)
                return
            if self.hold:
                time.sleep(0.005)
            ms = 40.0 if index == 0 else 4.0 if index < 20 else 8.0
            yield TokenMade(index, Token(request.ids[-1] + 1 + index, ms, 0.5))
        yield TextEnded("length", made, 1 << 20)

    def check(self, on_phase):
        on_phase("starting native ONNX Runtime")
        return {"same": 8, "ties": 1, "wrong": 0, "smallest_margin": 0.25, "differing": []}

    def forget(self):
        self.forgotten += 1


def engine_label(url, parent):
    """A plain widget in the place of the web view, which may be as narrow as one likes too."""
    label = QLabel(f"engine at {url}", parent)
    label.setMinimumWidth(1)
    return label


def finish(qtbot, workbench, window):
    """Let the window end its threads, as a user's closing it would."""
    workbench.release.set()
    if not window._closed:
        with qtbot.waitSignal(window.closed):
            window.close()
