"""Further kernels in a bundle, for tuning in the visitor's browser, and how they are judged there.

A page has no float64 reference: it compares a candidate with the kernel that runs, on random
memory. What that memory holds, and how far two right kernels may be apart, is taken from the
Studio's own fixture of the workload when the bundle is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from nnjit_studio.bundle.manifest import BundleKernel, TrialArg, TrialMemory
from nnjit_studio.errors import BundleError
from nnjit_studio.model import DTYPE_BYTES, Plan
from nnjit_studio.records import TIERS, Fixture, FixtureArg, Kernel
from nnjit_studio.records.candidate import Candidate

_DTYPES = {"f32": "<f4", "f16": "<f2", "i64": "<i8", "i32": "<i4", "i8": "i1", "u8": "u1"}


@dataclass(frozen=True)
class Candidates:
    """``kernels``: of each candidate one in every tier; ``share`` is the address that times may
    be sent to, empty for none. ``lots`` are digests of a compile service's kernels
    by workload, then by tier and registers."""

    kernels: Sequence[Kernel] = ()
    trials: Sequence[TrialMemory] = ()
    share: str = ""
    lots: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)


def trial_memory(fixture: Fixture) -> TrialMemory:
    """The recipe for a page's random memory, and the distance that two right kernels may have.

    Each of the two may be off by the fixture's bound, so twice the largest one is allowed, as a
    share of the root of the mean square of what is expected; 0 where outputs are exact.
    """
    outputs = [arg for arg in fixture.args if arg.role == "output"]
    shares = [
        2 * float(bound.max(initial=0)) / max(_rms(expected), float(np.finfo(np.float32).tiny))
        for arg, expected, bound in zip(outputs, fixture.expected, fixture.bound, strict=True)
        if arg.dtype in ("f32", "f16")
    ]
    return TrialMemory(
        fixture.workload, tuple(map(_argument, fixture.args)), max(shares, default=0.0)
    )


def _rms(values: Any) -> float:
    found = np.asarray(values, np.float64)
    return float(np.sqrt(np.mean(np.square(found[np.isfinite(found)]), dtype=np.float64)))


def _argument(arg: FixtureArg) -> TrialArg:
    values = np.frombuffer(arg.data or b"", _DTYPES.get(arg.dtype, "u1"))
    ends = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    return TrialArg(arg.role, arg.dtype, arg.nbytes, arg.pack, *ends)


def chosen_by_candidate(kernels: Sequence[Kernel]) -> list[list[Kernel]]:
    """The kernels of each candidate, in order.

    Raises
    ------
    BundleError
        When the tiers of one differ in more than their code, or the lowest is missing.
    """
    found: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        found.setdefault((kernel.workload, kernel.settings), []).append(kernel)
    for (workload, settings), tiers in found.items():
        forms = {(k.panels, k.parallel_extent) for k in tiers}
        if len(forms) > 1 or TIERS[0] not in {k.tier for k in tiers}:
            raise BundleError(
                f"The candidate {settings} of {workload} lacks a tier, or its tiers differ.",
                "Compile both tiers of each candidate, then export.",
            )
    return list(found.values())


def candidate_problems(
    candidates: Sequence[BundleKernel],
    trials: Sequence[TrialMemory],
    share: str,
    pointers: Mapping[str, int],
    plans: Sequence[Plan],
) -> Iterator[str]:
    """What is wrong with the candidates of a bundle, one sentence each.

    Parameters
    ----------
    pointers
        Pointer parameters of the kernel of each workload that runs.
    """
    known = {trial.workload: trial for trial in trials}
    if len(known) < len(trials):
        yield "The trial memory of a workload is there twice."
    seen: set[tuple[str, str]] = set()
    for kernel in candidates:
        name = f"The candidate {kernel.settings} of {kernel.workload}"
        Candidate.parse(kernel.settings)
        if kernel.workload not in pointers:
            yield f"{name} is of a workload that the bundle does not run."
        elif kernel.workload not in known:
            yield f"{name} has no trial memory."
        if (kernel.workload, kernel.settings) in seen:
            yield f"{name} is there twice."
        seen.add((kernel.workload, kernel.settings))
        if TIERS[0] not in kernel.tiers:
            yield f"{name} has no kernel of the tier {TIERS[0]}."
        for plan in plans:
            if not all(
                _fits(kernel, step.args, plan)
                for step in plan.steps
                if step.op == "call" and step.workload == kernel.workload
            ):
                yield f"{name} wants panels that do not fit into its weight."
    for trial in trials:
        wanted = pointers.get(trial.workload)
        if wanted is not None and wanted != len(trial.args):
            yield f"The trial memory of {trial.workload} has not the arguments of its kernel."
        if any(
            a.role not in ("input", "output", "workspace")
            or a.dtype not in DTYPE_BYTES
            or a.nbytes < 0
            or a.nbytes > 1 << 30
            or not a.low <= a.high
            for a in trial.args
        ):
            yield f"The trial memory of {trial.workload} has an argument that cannot be made."
        if not 0 <= trial.tolerance < 1:
            yield f"The trial memory of {trial.workload} takes every result for right."
    if share and not allowed_address(share):
        yield "The address that times may be sent to is not one of https, or of this machine."


def _fits(kernel: BundleKernel, args: Sequence[int], plan: Plan) -> bool:
    return all(
        position < len(args)
        and bool(plan.buffers[args[position]].pack)
        and plan.buffers[args[position]].panel_bytes(width) <= plan.buffers[args[position]].nbytes
        for position, width in kernel.panels
    )


def allowed_address(url: str) -> bool:
    """Whether times may go there: over https, or over http to this very machine."""
    try:
        parts = urlsplit(url)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        return False
    plain = not (parts.query or parts.fragment or parts.username or parts.password)
    return (
        plain
        and bool(parts.hostname)
        and (parts.scheme == "https" or (local and parts.scheme == "http"))
    )
