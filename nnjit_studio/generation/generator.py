"""Text generation on one target: a decoder's two plans, tuned each and run together."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.analysis.profile.memory import check_fits, forecast
from nnjit_studio.bundle import engine_files, write_bundle
from nnjit_studio.compiler.process.client import ImportedModel
from nnjit_studio.errors import CompileError, PageError, UserError
from nnjit_studio.model import (
    Generated,
    Generation,
    GenerationRequest,
    Plan,
    Sampling,
    Token,
    Workload,
)
from nnjit_studio.records import TIERS, Kernel, KernelKey
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, Candidate
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.tuner import TunedModel, TuneOptions, TuningContext, TuningSession
from nnjit_studio.tuner.events import Event
from nnjit_studio.workbench import SystemClock, Workbench, example_feeds

PREFILL = "prefill"
"""The page's name of the plan that takes a whole prompt."""
STEPS_PER_PROMPT = 128
"""Decode steps that one prompt is expected to cost, where kernels of both plans are weighed."""
_DEFAULT_GFLOPS, _UNTRIED_GFLOPS = 10.0, 5.0
"""What a kernel without a measurement is taken for."""

TIE = 1e-3
"""ONNX Runtime's logits of two tokens that are nearer than this are equal but for rounding."""

Width = int
"""Columns of the panels that a kernel wants its weight in; 0 is row-major."""


@dataclass(frozen=True)
class OpenedDecoder:
    """A decoder that was imported and loaded; ``prefill`` is None where it has no such plan."""

    path: Path
    facts: Generation
    decode: ImportedModel
    prefill: ImportedModel | None

    @property
    def models(self) -> dict[str, ImportedModel]:
        """By the page's name of the plan; the main one has none."""
        return {"": self.decode} | ({PREFILL: self.prefill} if self.prefill else {})


@dataclass(frozen=True)
class _Option:
    """A kernel that a workload may run with; ms are measured or guessed."""

    ms: float
    candidate: Candidate | None


class TextGenerator:
    """Opens a decoder, tunes its plans, makes text; drives a workbench's page and database."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._opened: OpenedDecoder | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="nnjit-text-")
        self._weights = (Path(self._folder.name) / f"weights-{i}.bin" for i in itertools.count(1))

    def close(self) -> None:
        self._folder.cleanup()

    @property
    def opened(self) -> OpenedDecoder:
        if self._opened is None:
            raise UserError("No decoder is open.", "Open one that was exported with past first.")
        return self._opened

    def open(
        self,
        path: Path,
        request: GenerationRequest,
        on_phase: Callable[[str], None] = lambda phase: None,
    ) -> OpenedDecoder:
        """Import a decoder and load it into the page.

        Raises
        ------
        ModelError, UserError, PageError
        """
        bench = self._bench
        weights = next(self._weights)
        facts, models = bench.compiler.import_generation(path, weights, request, on_phase)
        if bench.backend.is_gpu:
            models = [model.gpu or model for model in models]
        opened = OpenedDecoder(path, facts, models[0], models[1] if len(models) > 1 else None)
        check_fits(forecast(opened.decode.plan, [m.plan for m in models[1:]]))
        on_phase("waiting for the page")
        bench.connect()
        if self._opened is not None:
            self._opened.decode.weights.unlink(missing_ok=True)
        self._opened = opened
        self.load(on_phase)
        return opened

    def load(self, on_phase: Callable[[str], None] = lambda phase: None) -> None:
        """Load the decoder that is open into the page, which may hold something else by now.

        Raises
        ------
        PageError
        """
        on_phase("loading weights into the page")
        models = self.opened.models
        others = {name: m.plan for name, m in models.items() if name}
        self._bench.runner.load(self.opened.decode.plan, self.opened.decode.weights, others)

    def tune(
        self, seconds: float, cancelled: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, Event]]:
        """Tune the decode plan, then the prefill plan, each for its half of the time.

        Yields
        ------
        tuple
            The plan's name and an event of its session.
        """
        bench = self._bench
        models = self.opened.models
        for name, model in models.items():
            # Kernels of the other plan may hold a common weight in other panels.
            bench.runner.register([], only=True)
            runner = bench.runner.for_plan(name) if name else bench.runner
            session = TuningSession(
                TunedModel(
                    model.graph.name,
                    model.plan,
                    model.workloads,
                    example_feeds([p.spec for p in model.plan.inputs]),
                    model.packable,
                ),
                TuningContext(
                    runner, bench.compiler, bench.database, bench.connect(), SystemClock()
                ),
                TuneOptions(seconds=seconds / len(models)),
                cancelled,
            )
            for event in session.run():
                yield name or "decode", event

    def register_best(self) -> None:
        """Give the page the best kernels of both plans that want common weights in one layout."""
        tier = self._bench.connect().best_tier
        self._bench.runner.register(self.kernels((tier,)), only=True)

    def kernels(self, tiers: Sequence[str]) -> list[Kernel]:
        """The best kernels that agree, in the given tiers."""
        kernels: list[Kernel] = []
        chosen = self._choose()
        for workload in self._workloads().values():
            result = self._bench.compiler.compile(workload, chosen[workload.key], tiers)
            if result.error:
                raise CompileError(f"{workload.name} does not compile: {result.error}")
            kernels += result.kernels
        return kernels

    def generate(self, ids: Sequence[int], sampling: Sampling) -> Generator[Token, None, Generated]:
        """Go on with a text; kernels must be registered."""
        return self._bench.runner.generate(self.opened.facts, ids, sampling)

    def export(self, out: Path) -> Path:
        """Write a bundle that makes text: both plans, their common weights, the engine.

        Raises
        ------
        BundleError
            When it cannot be written.
        """
        opened, device = self.opened, self._bench.connect()
        facts = ("device_id", "target", "user_agent", "flags")
        return write_bundle(
            out,
            opened.decode.plan,
            opened.decode.weights,
            self.kernels(TIERS),
            name=opened.decode.graph.name,
            tuned_on={name: getattr(device, name) for name in facts},
            samples=None,
            engine_files=engine_files(generation=True),
            generation=opened.facts,
            prefill=opened.prefill.plan if opened.prefill else None,
        )

    # Which kernels

    def _workloads(self) -> dict[str, Workload]:
        return {w.key: w for m in self.opened.models.values() for w in m.workloads}

    def _choose(self) -> dict[str, Candidate | None]:
        """Settings of every workload: for each group over common weights the cheapest layout."""
        workloads = self._workloads()
        options = {key: self._options(workload) for key, workload in workloads.items()}
        runs = self._runs()
        chosen: dict[str, Candidate | None] = {}
        for group in groups_by_weight([m.plan for m in self.opened.models.values()]):
            widths = set.intersection(*(set(options[key]) for key in group))
            if not widths:
                raise PageError(
                    f"No layout of their common weights suits {', '.join(sorted(group))}.",
                    "Generate without a prefill plan: --prefill-rows 1.",
                )
            width = min(widths, key=lambda w: sum(runs[k] * options[k][w].ms for k in group))
            chosen |= {key: options[key][width].candidate for key in group}
        for key in workloads.keys() - chosen.keys():
            chosen[key] = min(options[key].values(), key=lambda o: o.ms).candidate
        return chosen

    def _runs(self) -> dict[str, int]:
        """How often each workload runs for one prompt and the text behind it."""
        runs: dict[str, int] = {}
        for name, model in self.opened.models.items():
            for workload in model.workloads:
                count = workload.uses * (1 if name else STEPS_PER_PROMPT)
                runs[workload.key] = runs.get(workload.key, 0) + count
        return runs

    def _options(self, workload: Workload) -> dict[Width, _Option]:
        """The best kernel for each layout of the weight: measured here, or the first untried."""
        bench, device = self._bench, self._bench.connect()
        packable = any(workload.key in m.packable for m in self.opened.models.values())
        guesses = dict.fromkeys(self._untried(workload) if packable else ())
        best: dict[Width, _Option] = {}

        def offer(width: Width, ms: float, candidate: Candidate | None) -> None:
            if width not in best or ms < best[width].ms:
                best[width] = _Option(ms, candidate)

        per_gflops = workload.flops / 1e6
        compiled = bench.compiler.compile(workload, None, (device.best_tier,))
        if compiled.error:
            raise CompileError(f"{workload.name} does not compile: {compiled.error}")
        offer(_width(compiled.kernels[0].panels), per_gflops / _DEFAULT_GFLOPS, None)
        for candidate in guesses:
            width = candidate.x0 if candidate.pack else 0
            if width not in best:
                offer(width, per_gflops / _UNTRIED_GFLOPS, candidate)
        key = KernelKey.of(workload, device, device.best_tier, bench.compiler.version)
        known = [r for r in bench.database.records(key) if r.state in ("won", "slower", "default")]
        if known:
            # What was measured goes before what was not.
            slowest = 2 * max(r.median_ms for r in known)
            best = {w: _Option(max(o.ms, slowest), o.candidate) for w, o in best.items()}
        for record in known:
            default = record.settings == DEFAULT_SETTINGS
            measured = None if default else Candidate.parse(record.settings)
            offer(_width(record.panels), record.median_ms, measured)
        return best

    def _untried(self, workload: Workload) -> list[Candidate]:
        return build_lite_space(workload, self._bench.connect(), True).wasm_candidates


def groups_by_weight(plans: Sequence[Plan]) -> list[frozenset[str]]:
    """Workloads that read a packable weight, joined where they read the same one."""
    readers: dict[int, set[str]] = {}
    for plan in plans:
        for step in plan.steps:
            for arg in step.args if step.op == "call" else ():
                if plan.buffers[arg].pack:
                    readers.setdefault(plan.buffers[arg].offset, set()).add(step.workload)
    groups: list[set[str]] = []
    for keys in readers.values():
        touching = [g for g in groups if g & keys]
        groups = [g for g in groups if not g & keys]
        groups.append(keys.union(*touching))
    return [frozenset(g) for g in groups]


def _width(panels: Sequence[tuple[int, int]]) -> Width:
    return panels[0][1] if panels else 0


def tokens_per_s(tokens: Sequence[Token]) -> float:
    """Rate behind the first token, which waits for the prompt; 0 where there is none."""
    ms = sum(token.ms for token in tokens[1:])
    return 1000 * (len(tokens) - 1) / ms if ms > 0 else 0.0


def collect(
    stream: Generator[Token, None, Generated],
    show: Callable[[Token, int], None] = lambda token, index: None,
) -> tuple[list[Token], Generated]:
    """All tokens of a text and how it ended; ``show`` gets each as it comes."""
    made: list[Token] = []
    while True:
        try:
            token = next(stream)
        except StopIteration as end:
            ended: Generated = end.value
            return made, ended
        made.append(token)
        show(token, len(made) - 1)


def compare(made: Sequence[Token], choices: Sequence[tuple[int, float]]) -> dict[str, Any]:
    """Tokens beside ONNX Runtime's choices behind the same text.

    A different one is a tie when ONNX Runtime's own logits of both differ by less than
    :data:`TIE`: there rounding decides.
    """
    differing = [
        {"index": i, "id": token.id, "native": native, "deficit": deficit}
        for i, (token, (native, deficit)) in enumerate(zip(made, choices, strict=True))
        if token.id != native
    ]
    wrong = [d for d in differing if d["deficit"] >= TIE]
    return {
        "same": len(made) - len(differing),
        "ties": len(differing) - len(wrong),
        "wrong": len(wrong),
        "smallest_margin": min(t.margin for t in made),
        "differing": differing[:10],
    }


def token_json(token: Token, index: int) -> dict[str, Any]:
    return {
        "event": "token",
        "index": index,
        "id": token.id,
        "ms": token.ms,
        "margin": token.margin,
    }
