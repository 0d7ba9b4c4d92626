"""Winners of several browsers, each tried in this one in turns with its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnjit_studio.analysis.browsers.crossing import Crossing, Winner
from nnjit_studio.errors import UserError
from nnjit_studio.records import MeasurePolicy
from nnjit_studio.records.gpu_candidate import candidate_of
from nnjit_studio.support.phases import OnPhase, quiet
from nnjit_studio.tuner.events import Finished
from nnjit_studio.tuner.swap_policy import decide
from nnjit_studio.workbench.model import ModelOnPage

POLICY = MeasurePolicy(pairs=32, early_stop_ratio=100.0)
"""Slower kernels are timed too: by how much is the question."""


def winners(model: ModelOnPage, browser: str) -> list[Winner]:
    """What the last session of the open model found.

    Raises
    ------
    UserError
        When it did not come to its end.
    """
    summary = next((e for e in reversed(model.events) if isinstance(e, Finished)), None)
    if summary is None:
        raise UserError(f"The session in {browser} did not end.", "Start again.")
    tunable = {w.key for w in model.current.workloads if w.tunable}
    return [
        Winner(browser, w.workload, w.best, w.uses, w.ms["after"])
        for w in summary.workloads
        if w.workload in tunable
    ]


def cross(
    model: ModelOnPage,
    browser: str,
    own: Mapping[str, str],
    others: Mapping[str, Sequence[str]],
    on_phase: OnPhase = quiet,
) -> list[Crossing]:
    """Time other settings of workloads against this browser's own, pair by pair.

    Parameters
    ----------
    own
        Settings by the key of the workload.
    others
        Those to try, by the key of the workload.

    Raises
    ------
    UserError, CompileError, PageError
    """
    page, found = model.page, []
    device = page.connect()
    tier = device.best_tier
    for key, several in others.items():
        workload = model.workload(key)
        mine = page.compiler.compile(workload, candidate_of(own[key]), (tier,)).kernel(tier)
        page.runner.set_fixture(page.compiler.fixture(workload))
        for settings in several:
            on_phase(f"{browser}: {workload.name} with {settings}")
            compiled = page.compiler.compile(workload, candidate_of(settings), (tier,))
            if compiled.error:
                found.append(Crossing(browser, key, settings, why_not=compiled.error))
                continue
            result = page.runner.measure(compiled.kernel(tier), mine, POLICY)
            verdict = decide(result, 0, None)
            bad = verdict.state in ("failed", "wrong", "impossible")
            found.append(
                Crossing(
                    browser, key, settings, result.incumbent_ms, result.samples_ms,
                    f"{verdict.state}: {verdict.reason}" if bad else "",
                )
            )  # fmt: skip
    return found
