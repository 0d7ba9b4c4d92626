"""Kernels of several programs: those that read one weight have to agree on its layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import PageError
from nnjit_studio.model import Plan, Workload
from nnjit_studio.records import DeviceProfile, KernelKey
from nnjit_studio.records.gpu_candidate import AnyCandidate, candidate_of
from nnjit_studio.records.outcomes import TIMED
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.workbench.open_model import MAIN, OpenModel

STEPS_PER_PROMPT = 128
"""Decode steps that one prompt is expected to cost, where kernels of both plans are weighed."""
_DEFAULT_GFLOPS, _UNTRIED_GFLOPS = 10.0, 5.0
"""Rate of a kernel without a measurement, as it is assumed."""

Width = int
"""Columns of the panels that a kernel wants its weight in; 0 is row-major."""


@dataclass(frozen=True)
class _Option:
    """A kernel that a workload may run with; ms are measured or guessed."""

    ms: float
    candidate: AnyCandidate | None


def choose_together(
    model: OpenModel, device: DeviceProfile, compiler: Compiler, database: KernelDatabase
) -> dict[str, AnyCandidate | None]:
    """Settings of every workload: for each group over common weights the cheapest layout.

    Raises
    ------
    CompileError
        When a default kernel does not compile.
    PageError
        When no layout suits all kernels of a group.
    """
    options = {
        w.key: _options(w, w.key in model.packable, device, compiler, database)
        for w in model.workloads
    }
    runs = _runs(model)
    chosen: dict[str, AnyCandidate | None] = {}
    for group in groups_by_weight([model.plan, *model.other_plans.values()]):
        widths = set.intersection(*(set(options[key]) for key in group))
        if not widths:
            raise PageError(
                f"No layout of their common weights suits {', '.join(sorted(group))}.",
                "Generate without a prefill plan: --prefill-rows 1."
                if model.generation
                else "Run the sizes one by one.",
            )
        width = min(widths, key=lambda w: sum(runs[k] * options[k][w].ms for k in group))
        chosen |= {key: options[key][width].candidate for key in group}
    for key in options.keys() - chosen.keys():
        chosen[key] = min(options[key].values(), key=lambda o: o.ms).candidate
    return chosen


def _runs(model: OpenModel) -> dict[str, int]:
    """How often each workload runs: of a decoder for one prompt and the text behind it, else
    once at each size."""
    steps = STEPS_PER_PROMPT if model.generation else 1
    runs: dict[str, int] = {}
    for name in model.programs:
        for workload in model.program(name).workloads:
            count = workload.uses * (steps if name == MAIN else 1)
            runs[workload.key] = runs.get(workload.key, 0) + count
    return runs


def _options(
    workload: Workload,
    packable: bool,
    device: DeviceProfile,
    compiler: Compiler,
    database: KernelDatabase,
) -> dict[Width, _Option]:
    """The best kernel for each layout of the weight: measured here, or the first untried."""
    best: dict[Width, _Option] = {}

    def offer(width: Width, ms: float, candidate: AnyCandidate | None) -> None:
        if width not in best or ms < best[width].ms:
            best[width] = _Option(ms, candidate)

    per_gflops = workload.flops / 1e6
    (default,) = compiler.kernels(workload, None, (device.best_tier,))
    offer(_width(default.panels), per_gflops / _DEFAULT_GFLOPS, None)
    untried = build_lite_space(workload, device, True).wasm_candidates if packable else ()
    for candidate in untried:
        width = candidate.x0 if candidate.pack else 0
        if width not in best:
            offer(width, per_gflops / _UNTRIED_GFLOPS, candidate)
    key = KernelKey.of(workload, device, device.best_tier, compiler.version)
    known = [r for r in database.records(key) if r.state in TIMED]
    if known:
        # What was measured goes before what was not.
        slowest = 2 * max(r.median_ms for r in known)
        best = {w: _Option(max(o.ms, slowest), o.candidate) for w, o in best.items()}
    for record in known:
        offer(_width(record.panels), record.median_ms, candidate_of(record.settings))
    return best


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
