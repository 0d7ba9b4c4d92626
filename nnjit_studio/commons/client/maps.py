"""A map of devices for one kernel: asked for by its bucket, so that the question hides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nnjit_studio.commons.client.web import no_answer, request
from nnjit_studio.commons.report.buckets import bucket_of

Workload = tuple[str, str, str, str]


@dataclass(frozen=True)
class Elsewhere:
    """A kind of device, and what the reporters of it stand for.

    Attributes
    ----------
    best
        Settings with their speed-ups over each reporter's own default, the most voted first.
    sources
        Independent ones that said anything of this kernel there.
    dissent
        Share of their voices that the rest does not agree with, 0 to 1.
    """

    family: str
    engine: str
    tier: str
    threads: int
    compiler: str
    best: tuple[tuple[str, float], ...]
    sources: int
    dissent: float

    @property
    def winner(self) -> tuple[str, float]:
        """The fastest of what is believed there."""
        return max(self.best, key=lambda each: each[1])

    def speedup_of(self, settings: str) -> float | None:
        """None where they are not among the believed."""
        return dict(self.best).get(settings)


@dataclass(frozen=True)
class Common:
    """One kernel for all kinds: at worst so large a share of a kind's best speed-up."""

    settings: str
    least: float


def common_of(kinds: Sequence[Elsewhere]) -> Common | None:
    """The settings that are believed everywhere and lose least; None where there are none."""
    shared = set.intersection(*({s for s, _ in kind.best} for kind in kinds)) if kinds else set()
    shares = {
        settings: min((kind.speedup_of(settings) or 0.0) / kind.winner[1] for kind in kinds)
        for settings in sorted(shared)
    }
    if not shares:
        return None
    best = max(shares, key=lambda settings: shares[settings])
    return Common(best, shares[best])


def ask_map(server: str, workload: Workload) -> list[Elsewhere]:
    """Every kind of device that the server may tell of for this kernel.

    Raises
    ------
    CommonsError
    """
    answer = request("GET", f"{server}/map", params={"bucket": bucket_of(*workload)})
    try:
        kernels = answer["kernels"]
        names = ("kind", "dims", "dtype", "layout")
        mine = (k for k in kernels if tuple(k[n] for n in names) == workload)
        kinds = (kind for kernel in mine for kind in kernel["devices"])
        return [_elsewhere(kind) for kind in kinds if kind["belief"]["best"]]
    except (KeyError, TypeError, ValueError) as e:
        raise no_answer(server) from e


def _elsewhere(kind: dict[str, Any]) -> Elsewhere:
    belief = kind["belief"]
    best = tuple((str(s["settings"]), float(s["speedup"])) for s in belief["best"][:5])
    if not all(0 < speedup < float("inf") for _, speedup in best):
        raise ValueError("no speed-up")
    family, engine, tier = (str(kind[n]) for n in ("family", "engine", "tier"))
    return Elsewhere(
        family, engine, tier, int(kind["threads"]), str(kind["compiler"]), best,
        int(belief["sources"]), float(belief["dissent"]),
    )  # fmt: skip
