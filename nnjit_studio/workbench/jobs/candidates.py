"""One kernel of the open model: its rules, its inside, its time, and running it."""

from __future__ import annotations

from collections.abc import Iterator

from nnjit_studio.analysis.kernel.kernel import KernelInspection, inspect_kernel
from nnjit_studio.errors import UserError
from nnjit_studio.records import DeviceProfile, KernelKey
from nnjit_studio.records.candidate import settings_of
from nnjit_studio.records.gpu_candidate import candidate_of, parse_candidate
from nnjit_studio.records.outcomes import TIMED
from nnjit_studio.space import explain as rules_on
from nnjit_studio.space.lite_space import Verdict
from nnjit_studio.tuner import TuningContext, own_candidate
from nnjit_studio.tuner.events import Event, Swapped
from nnjit_studio.tuner.in_place import Trials
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.page import SystemClock


def explain(model: ModelOnPage, workload: str, settings: str) -> list[Verdict]:
    """Every rule's answer on a candidate of one of the model's workloads, by key.

    For the window's own thread: it waits for nothing.

    Raises
    ------
    UserError
        When the text is no candidate, the workload has no lite space, or no page
        has told yet what the device is.
    """
    found, candidate = model.workload(workload), parse_candidate(settings)
    return rules_on(candidate, found, _known_device(model), workload in model.current.packable)


def inspect(model: ModelOnPage, workload: str, settings: str = "") -> KernelInspection:
    """A kernel of one of the model's workloads from the inside, in the device's best tier.

    It waits for the compile process alone, so it may run during a session.

    Parameters
    ----------
    settings
        Of a candidate, ``default`` for the default schedule; empty for the best known.

    Raises
    ------
    UserError
        When the text is no candidate, or no page has told yet what the device is.
    """
    found, device = model.workload(workload), _known_device(model)
    candidate = candidate_of(settings) if settings else model.choose_known()[workload]
    packable = workload in model.current.packable
    bandwidth = model.page.bandwidth_gbs()
    return inspect_kernel(model.page.compiler, found, candidate, device, packable, bandwidth)


def try_candidate(model: ModelOnPage, workload: str, settings: str) -> Iterator[Event]:
    """Compile, check and time a candidate of the user's against the kernel that runs.

    Raises
    ------
    UserError, PageError
    """
    found, candidate = model.workload(workload), parse_candidate(settings)
    if not found.tunable:
        raise UserError(f"{found.name} has no schedule template.", "Choose another workload.")
    if not model.registered:
        model.register_best()
    page, incumbent = model.page, model.choose_known()[workload]
    context = TuningContext(
        page.runner, page.compiler, page.database, page.connect(), SystemClock()
    )
    asks = not (model.serving or page.backend.is_gpu or len(model.current.programs) > 1)
    trials = Trials(page.runner, model.feeds) if asks else None
    for event in own_candidate.try_candidate(found, candidate, incumbent, context, trials=trials):
        if isinstance(event, Swapped):
            model.choose(workload, candidate)
        yield event


def run_kernel(model: ModelOnPage, workload: str, settings: str) -> Iterator[Event]:
    """Run the open model with this kernel of a workload, until it is tuned or opened again.

    The database keeps its verdicts: the next session starts from the last winner.

    Raises
    ------
    UserError
        When it was not measured on this device, or it was wrong.
    CompileError, PageError
    """
    page = model.page
    found, device, candidate = model.workload(workload), page.connect(), candidate_of(settings)
    tier = device.best_tier
    key = KernelKey.of(found, device, tier, page.compiler.version)
    known = {r.settings: r for r in page.database.records(key) if r.samples_ms}
    if candidate is not None and (settings not in known or known[settings].state not in TIMED):
        raise UserError(
            f"It is not known that {settings} computes the right values here.",
            "Measure it first; what is wrong does not run.",
        )
    kernels = page.compiler.kernels(found, candidate, (tier,))
    if not model.registered:
        model.register_best()
    page.runner.register(kernels)
    before = settings_of(model.choose_known()[workload])
    model.choose(workload, candidate)
    then, now = (known[s].gflops if s in known else 0.0 for s in (before, settings))
    yield Swapped(0.0, workload, settings, then, now, from_database=True)


def _known_device(model: ModelOnPage) -> DeviceProfile:
    if model.page.device is None:
        raise UserError("The device is not known yet.", "Wait for the page to connect.")
    return model.page.device
