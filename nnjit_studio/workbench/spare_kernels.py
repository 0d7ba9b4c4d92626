"""Further candidates of each workload, for a bundle that goes on with tuning in the page."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.bundle import Candidates, trial_memory
from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import host_profile
from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import TIERS, DeviceProfile, Kernel, TuningRecord
from nnjit_studio.records.backend import WASM
from nnjit_studio.records.candidate import DEFAULT_SETTINGS, Candidate
from nnjit_studio.records.gpu_candidate import parse_candidate
from nnjit_studio.records.lab import is_lab
from nnjit_studio.records.outcomes import COMPARED
from nnjit_studio.space.lite_space import build_lite_space
from nnjit_studio.workbench.model import ModelOnPage
from nnjit_studio.workbench.stored_best import known_device


def spare_kernels(model: ModelOnPage, count: int, share: str = "") -> Candidates:
    """Up to ``count`` compiled candidates of each tunable workload, with their trial memory.

    At least half are the first guesses of the lite space on this device, the others are those that
    were measured best, on any device; a device that nobody tuned on may like another kernel than
    this one. With a ``count`` of 0 there is the trial memory alone, of each tunable workload.
    Candidates that do not compile, or compile to bytes that are there already, are left out.

    Raises
    ------
    CompileError
        When a workload has no reference.
    """
    page, opened = model.page, model.current
    device = page.device if page.device and not page.device.gpu else None
    device = device or known_device(page.database, host_profile(page.target))
    chosen = model.choose_known(WASM)
    kernels: list[Kernel] = []
    trials = []
    for workload in opened.workloads:
        if not workload.tunable:
            continue
        mine = page.compiler.kernels(workload, chosen[workload.key], TIERS)
        known = {k.sha256 for k in mine}
        found: list[Kernel] = []
        taken = 0
        packable = workload.key in opened.packable
        for candidate in _order(page.database, workload, device, packable, count):
            if taken == count:
                break
            compiled = page.compiler.compile(workload, candidate, TIERS)
            if compiled.error or known.issuperset(k.sha256 for k in compiled.kernels):
                continue
            known |= {k.sha256 for k in compiled.kernels}
            found += compiled.kernels
            taken += 1
        kernels += found
        if found or not count:
            trials.append(trial_memory(page.compiler.fixture(workload)))
    return Candidates(kernels, trials, share if trials else "")


def _order(
    database: KernelDatabase, workload: Workload, device: DeviceProfile, packable: bool, count: int
) -> list[Candidate | None]:
    """The default kernel last: it is right everywhere, and slow as a rule."""
    try:
        guesses = build_lite_space(workload, device, packable).wasm_candidates
    except UserError:
        guesses = []
    known = best_measured(database.all_records(workload=workload.key))
    first = known[: count // 2]
    return [*dict.fromkeys([*first, *guesses, *known]), None]


def best_measured(records: Sequence[TuningRecord]) -> list[Candidate]:
    """Candidates that were timed, best first: by their time over the shortest one of the same
    device, target and tier, of which the best case counts."""
    timed = [
        r for r in records if r.state in COMPARED and r.median_ms > 0 and not is_lab(r.key.target)
    ]
    shortest: dict[object, float] = {}
    for r in timed:
        shortest[r.key] = min(shortest.get(r.key, r.median_ms), r.median_ms)
    best: dict[str, float] = {}
    for r in timed:
        share = r.median_ms / shortest[r.key]
        if r.settings != DEFAULT_SETTINGS:
            best[r.settings] = min(best.get(r.settings, share), share)
    parsed = [parse_candidate(settings) for settings in sorted(best, key=lambda s: (best[s], s))]
    return [c for c in parsed if isinstance(c, Candidate)]
