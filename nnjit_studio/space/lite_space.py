"""The lite space of a workload: dozens of candidates, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate
from nnjit_studio.space.registry import row_of, space_of
from nnjit_studio.space.rules import Usage


@dataclass(frozen=True)
class Verdict:
    """One rule's answer on one candidate, with its numbers in ``text``."""

    rule: str
    ok: bool
    text: str


@dataclass(frozen=True)
class SpaceEntry:
    """A candidate of the space.

    ``varies`` names the setting that leaves the first choice for the tile:
    ``r0``, ``r1``, ``order`` or nothing.
    """

    candidate: AnyCandidate
    usage: Usage
    reason: str
    varies: str = ""


@dataclass(frozen=True)
class LiteSpace:
    """Candidates in order of evaluation, and the size of the space they stand for."""

    workload: Workload
    entries: tuple[SpaceEntry, ...]
    naive_size: int

    @property
    def wasm_candidates(self) -> list[Candidate]:
        """The candidates, for what deals with Wasm kernels alone; none of a GPU's space."""
        return [e.candidate for e in self.entries if isinstance(e.candidate, Candidate)]


def build_lite_space(workload: Workload, device: DeviceProfile, packable: bool) -> LiteSpace:
    """All candidates that every rule of the workload's space accepts, best guess first.

    Parameters
    ----------
    workload
        Of a kind that has a row in :mod:`nnjit_studio.space.registry`.
    device
        Registers and cache sizes in bytes.
    packable
        Whether B is a weight that may be packed into panels.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype.
    """
    space = space_of(workload, device, packable)
    problem = space.problem
    entries = tuple(
        SpaceEntry(
            c,
            space.usage(c, problem),
            "; ".join(rule(c, problem)[1] for rule in space.told),
            "".join(space.varies(c, problem)),
        )
        for c in space.find(problem)
    )
    return LiteSpace(workload, entries, naive_size(workload))


def explain(
    candidate: AnyCandidate, workload: Workload, device: DeviceProfile, packable: bool
) -> list[Verdict]:
    """Why a setting is in the lite space (every verdict is ok) or out.

    Raises
    ------
    UserError
        When no lite space exists for this kind or dtype, or the candidate is one of
        another backend.
    """
    _check_backend(candidate, device)
    space = space_of(workload, device, packable)
    answers = ((rule.__name__, rule(candidate, space.problem)) for rule in space.rules)
    return [Verdict(name, ok, text) for name, (ok, text) in answers]


def usage_of(
    candidate: AnyCandidate, workload: Workload, device: DeviceProfile, packable: bool
) -> Usage:
    """What a setting uses, in the lite space or not.

    Raises
    ------
    UserError
        As :func:`explain`.
    """
    _check_backend(candidate, device)
    space = space_of(workload, device, packable)
    return space.usage(candidate, space.problem)


def _check_backend(candidate: AnyCandidate, device: DeviceProfile) -> None:
    of_gpu = isinstance(candidate, GpuCandidate)
    if of_gpu != (device.gpu is not None):
        raise UserError(
            f"{candidate} is a candidate of {'WGSL' if of_gpu else 'Wasm'} kernels.",
            "`nnjit space` lists those of this backend.",
        )


def naive_size(workload: Workload) -> int:
    """Size of the space before any reduction, counted as AutoTVM does for Wasm.

    M and N are split into three, the reduction K into two, times on and off of
    three annotations. For the paper's 384x768x768 that is 108 * 135 * 18 * 8 =
    2,099,520, the figure of Table 6. (Its figure for BatchMatMul, 2,694,384,
    follows from no rule that the paper states; here batches are split into two,
    which makes 2,322,432.)
    """
    return row_of(workload.kind).naive_size(workload)
