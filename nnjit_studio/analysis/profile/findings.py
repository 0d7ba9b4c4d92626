"""Findings of a profile in words; every number is computed from its rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nnjit_studio.analysis.profile.records import ModelProfile, StepProfile
from nnjit_studio.model.readable import operators_of
from nnjit_studio.verdict.text import milliseconds

NOTHING_TO_GAIN = 85.0
"""Percent of the roof."""
WORTH_A_WORD = 0.03
"""Share of the time."""
MOVERS = (
    "transpose", "concatenate", "reshape", "strided_slice", "split", "take", "pad", "tile",
    "cast", "gather", "expand_dims", "squeeze", "broadcast_to", "repeat", "flip", "copy",
)  # fmt: skip
"""Operators that move data and compute nothing."""
_MOVE = rf"(?:te_)?(?:dynamic_)?(?:{'|'.join(MOVERS)})(?:_nd|_elements)?\d*"
_ONLY_MOVES = re.compile(rf"{_MOVE}(?:_{_MOVE})*")


IN_THE_PAGE = ("loading weights into the page", "registering kernels in the page", "first run")
"""Phases of the cold start that a visitor of a shipped page waits for, too."""
COMPILING = "compiling kernels"
"""Of the others the one that is no part of the import."""

PEAK_TOO_LOW = "nothing to gain; the peak was measured too low, as happens on a busy machine"
"""Where steps are faster than a kernel that does nothing else."""
ROUGH = 0.25
"""Spread of the runs, of their median, beyond which a machine was too busy for a profile."""
TUNE, SHOW, DIFF, MEMORY, LEDGER, DEVICE = "tune", "show", "diff", "memory", "ledger", "device"
"""What may follow from a finding: tune, show the step, compare its numbers, see the memory's or
the cold start's figures, measure the device."""


@dataclass(frozen=True)
class Finding:
    """A sentence, what may be done about it, and the step that it is best seen at."""

    text: str
    then: tuple[str, ...] = ()
    node: str = ""


def findings(profile: ModelProfile) -> list[str]:
    """Sentences, the largest share of the time first."""
    return [found.text for found in ranked(profile)]


def ranked(profile: ModelProfile) -> list[Finding]:
    """The findings, the largest share of the time first."""
    by_kind: dict[str, list[StepProfile]] = {}
    for step in profile.steps:
        by_kind.setdefault(kind_of(step), []).append(step)
    groups = sorted(by_kind.items(), key=lambda item: -_share(item[1]))
    told = [_group(kind, steps) for kind, steps in groups if _share(steps) >= WORTH_A_WORD]
    rest = [steps for _, steps in groups if _share(steps) < WORTH_A_WORD]
    if rest:
        several = [step for steps in rest for step in steps]
        told.append(Finding(f"{_share(several):.0%} in {_count(several, 'other')}."))
    return [
        *map(Finding, _rough(profile)),
        *told,
        *map(Finding, _engine(profile)),
        *(Finding(text, (LEDGER,)) for text in _cold(profile)),
        *(Finding(text, (MEMORY,)) for text in _memory(profile)),
        *(Finding(text, (DEVICE,)) for text in _unknown(profile)),
    ]


def _rough(profile: ModelProfile) -> Iterator[str]:
    """Shares and peaks are not to be believed of runs that differ so much."""
    warm = profile.warm
    if warm.median_ms > 0 and warm.iqr_ms > ROUGH * warm.median_ms:
        spread = warm.iqr_ms / warm.median_ms
        yield f"Runs differ by {spread:.0%}: the machine was busy, and what follows is rough."


def kind_of(step: StepProfile) -> str:
    """The kind of a step's workload, without what is fused behind it."""
    return step.workload.split(":")[0]


def only_moves(kind: str) -> bool:
    """Whether each operator fused into a kind of workload moves data and computes nothing."""
    return _ONLY_MOVES.fullmatch(kind) is not None


def _share(steps: Sequence[StepProfile]) -> float:
    return sum(step.share for step in steps)


def _group(kind: str, steps: Sequence[StepProfile]) -> Finding:
    text = f"{_share(steps):.0%} of the time in {_count(steps, kind)}"
    slowest = max(steps, key=lambda s: s.ms).node
    if only_moves(kind):
        moves = "move" if len(steps) > 1 else "moves"
        text += f", which only {moves} data: an export in the layout that is needed saves it."
        return Finding(text, (SHOW,), slowest)
    known = [s for s in steps if s.percent_of_roof is not None and s.ms > 0]
    if _share(known) < 0.5 * _share(steps):
        text += "; whether memory or arithmetic limits them is not known."
        return Finding(text, (SHOW,), slowest)
    ms = sum(s.ms for s in known)
    percent = sum(s.ms * (s.percent_of_roof or 0.0) for s in known) / ms
    limit = "multiply-add peak" if _mostly_compute(known) else "memory bandwidth"
    at = f"{text} at {percent:.0f}% of the {limit}"
    if percent > 100.0:
        why = PEAK_TOO_LOW if _mostly_compute(known) else "their data comes from caches"
        acts = (SHOW, DEVICE) if why is PEAK_TOO_LOW else (SHOW,)
        return Finding(f"{at}: {why}.", acts, slowest)
    if percent >= NOTHING_TO_GAIN:
        return Finding(f"{at}: nothing to gain.", (SHOW,), slowest)
    worst = min(known, key=lambda s: (s.percent_of_roof or 0.0) / s.share if s.share else 0.0)
    gain = sum(s.share * (1 - min(100.0, s.percent_of_roof or 0.0) / 100) for s in known)
    return Finding(
        f"{at}: at most {gain:.0%} of the whole to gain; furthest off is {worst.node} "
        f"({worst.percent_of_roof:.0f}%, {milliseconds(worst.ms)}).",
        (TUNE, SHOW, DIFF),
        worst.node,
    )


def _count(steps: Sequence[StepProfile], kind: str) -> str:
    words = kind if "matmul" in kind else operators_of(kind)  # products differ by their kind alone
    return f"{len(steps)} {words} step{'s' * (len(steps) > 1)}"


def _mostly_compute(steps: Sequence[StepProfile]) -> bool:
    return sum(s.ms for s in steps if s.bound == "compute") >= 0.5 * sum(s.ms for s in steps)


def _engine(profile: ModelProfile) -> Iterator[str]:
    own = profile.warm.median_ms - profile.steps_ms
    if profile.warm.median_ms > 0:
        share = own / profile.warm.median_ms
        if own > profile.warm.iqr_ms:
            yield (
                f"A run takes {milliseconds(own)} ({share:.1%}) more than its steps together, each "
                "timed in runs of its own: the engine's share, or a machine that was busier then."
            )
        elif own < -profile.warm.iqr_ms:
            yield (
                f"The steps together take {milliseconds(-own)} more than a run: the machine was "
                "busier when they were timed, so their times are too high."
            )
        else:
            yield (
                f"The run takes {milliseconds(profile.warm.median_ms)}, its steps together "
                f"{milliseconds(profile.steps_ms)}: no difference beyond the spread of the runs."
            )


def _cold(profile: ModelProfile) -> Iterator[str]:
    page = {phase: ms for phase, ms in profile.cold_ms.items() if phase in IN_THE_PAGE}
    if sum(page.values()) > 0:
        phase, ms = max(page.items(), key=lambda item: item[1])
        yield (
            f"The page starts in {sum(page.values()) / 1e3:.2f} s, without its download; most of "
            f"it, {ms / 1e3:.2f} s, is {phase!r}. What the Studio did before that is not shipped: "
            f"{in_the_studio(profile)}."
        )


def in_the_studio(profile: ModelProfile) -> str:
    """Seconds of what comes before a page: the import, as the window's header has it, and the
    kernels.
    """
    others = {phase: ms for phase, ms in profile.cold_ms.items() if phase not in IN_THE_PAGE}
    kernels = others.pop(COMPILING, 0.0)
    return f"import {sum(others.values()) / 1e3:.1f} s, kernels {kernels / 1e3:.1f} s"


def _memory(profile: ModelProfile) -> Iterator[str]:
    found = profile.memory
    forecast = found.forecast
    text = (
        f"Memory: {forecast.total_bytes / 2**20:.1f} MiB were forecast, of them "
        f"{forecast.wasm_bytes / 2**20:.1f} MiB Wasm memory"
    )
    if found.wasm_bytes != forecast.wasm_bytes:
        text += f", which is {found.wasm_bytes / 2**20:.1f} MiB in fact"
    if found.renderer_peak_bytes is not None:
        text += f"; the page's process grew by {found.renderer_peak_bytes / 2**20:.1f} MiB at most"
    yield text + "."


def _unknown(profile: ModelProfile) -> Iterator[str]:
    if profile.bandwidth_gbs is None:
        yield "Memory bandwidth is not measured here: run `nnjit doctor --microbench`."
