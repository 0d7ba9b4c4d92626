"""Maps of devices: what wins where, for the kernels of one bucket.

A workload is in one of 256 buckets by its hash, and a question names the bucket alone: it tells the
server next to nothing of which kernel is meant.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nnjit_studio.commons.report.document import Place
from nnjit_studio.commons.rule.ballot import Ballot
from nnjit_studio.commons.rule.belief import Belief, believe
from nnjit_studio.commons.server.answers import Answer, heard_of, render
from nnjit_studio.commons.server.store import Store

_Workload = tuple[str, str, str, str]
_Kind = tuple[str, str, str, int, str, str]


@dataclass(frozen=True)
class DeviceKind:
    """Devices of like hardware with one browser engine, and what they believe."""

    family: str
    engine: str
    tier: str
    threads: int
    primitives: str
    compiler: str
    belief: Belief


@dataclass(frozen=True)
class KernelMap:
    """A kernel, and each kind of device that five sources of are known."""

    kind: str
    dims: str
    dtype: str
    layout: str
    devices: tuple[DeviceKind, ...]


def maps_of(voices: list[tuple[Place, Ballot]]) -> list[KernelMap]:
    """Apply the rule to every kernel on every kind of device; what few know is left out."""
    kernels: dict[_Workload, dict[_Kind, list[Ballot]]] = defaultdict(lambda: defaultdict(list))
    for place, ballot in heard_of(voices):
        kind = (place.family, place.engine, place.tier, place.threads)
        made = (place.primitives, place.compiler)
        kernels[place.workload][kind + made].append(ballot)
    found = []
    for asked, kinds in sorted(kernels.items()):
        beliefs = [(kind, believe(ballots)) for kind, ballots in sorted(kinds.items())]
        devices = tuple(DeviceKind(*kind, b) for kind, b in beliefs if b and b.best)
        if devices:
            found.append(KernelMap(*asked, devices))
    return found


def of_bucket(store: Store, bucket: str) -> Answer:
    """The map of a bucket, two hexadecimal digits."""
    return render(bucket=bucket, kernels=maps_of(store.bucket(bucket)))
