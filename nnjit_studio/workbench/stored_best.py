"""Database look-ups: this device's measured limits, and a workload's best kernel on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import device_id, host_profile
from nnjit_studio.device.measured import with_measured
from nnjit_studio.model import Workload
from nnjit_studio.records import TIERS, DeviceProfile, KernelKey, TuningRecord
from nnjit_studio.records.backend import is_software
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import AnyCandidate, candidate_of
from nnjit_studio.records.lab import is_lab
from nnjit_studio.records.size_tuning import SizeTuning, Table


def known_device(database: KernelDatabase, probed: DeviceProfile) -> DeviceProfile:
    """A probed device with the limits that were measured of it, else those the system tells."""
    host = host_profile(probed.target)
    limits = {n: getattr(host, n) for n in ("vector_registers", "l1_bytes", "l2_bytes")}
    before = replace(probed, **limits, sources=host.sources)
    return with_measured(before, database.device(probed.device_id, probed.target))


def guest_device(database: KernelDatabase, probed: DeviceProfile, identity: str) -> DeviceProfile:
    """The same of a device that is not this machine, whose registers and caches are assumed."""
    assumed = DeviceProfile(identity, probed.target)
    limits = {n: getattr(assumed, n) for n in ("vector_registers", "l1_bytes", "l2_bytes")}
    before = replace(probed, device_id=identity, **limits, sources={})
    return with_measured(before, database.device(identity, probed.target))


@dataclass(frozen=True)
class Here:
    """Where a kernel would run, in one of ``tiers``; without a page its device is None.

    Winners on an adapter in software count only with ``software``: they say nothing of a GPU.
    """

    compiler_version: str
    target: str
    threads: int
    device: DeviceProfile | None
    tiers: tuple[str, ...] = TIERS
    software: bool = False


def stored_best(database: KernelDatabase, workload: Workload, here: Here) -> AnyCandidate | None:
    """Settings of the newest winner among those measured most like here."""
    found = database.all_records(workload=workload.key)
    counted = [r for r in found if r.workload == workload.key and _counts(r, here)]
    best = max(counted, key=lambda record: _likeness(record.key, here), default=None)
    return None if best is None else candidate_of(best.settings)


def stored_winners(database: KernelDatabase, here: Here) -> dict[str, Candidate]:
    """What won for all workloads of Wasm, each measured most like here, by their keys."""
    won = (r for r in database.all_records(state="won") if _counts(r, here))
    tiles = {key: candidate_of(record.settings) for key, record in _most_alike(won, here).items()}
    return {key: tile for key, tile in tiles.items() if isinstance(tile, Candidate)}


def stored_tables(database: KernelDatabase, here: Here) -> dict[str, Table]:
    """What was compared at several sizes for kernels for any size, each most like here, by the
    keys of their families."""
    fitting = (t for t in database.size_tunings() if _fits(t.key, here))
    return {name: tuning.table for name, tuning in _most_alike(fitting, here).items()}


Measured = TypeVar("Measured", TuningRecord, SizeTuning)


def _most_alike(found: Iterable[Measured], here: Here) -> dict[str, Measured]:
    """Of each workload what was measured most like here, the first of equal ones."""
    best: dict[str, Measured] = {}
    for each in found:
        known = best.get(each.workload)
        if known is None or _likeness(each.key, here) > _likeness(known.key, here):
            best[each.workload] = each
    return best


def _counts(record: TuningRecord, here: Here) -> bool:
    return record.state == "won" and _fits(record.key, here)


def _fits(key: KernelKey, here: Here) -> bool:
    return (
        key.compiler_version == here.compiler_version
        and key.tier in here.tiers
        and (here.software or not is_software(key.target))
        and is_lab(key.target) == is_lab(here.target)
    )


def _likeness(key: KernelKey, here: Here) -> tuple[bool, ...]:
    device = here.device
    if device is None:
        return key.device_id == device_id(), key.threads == here.threads
    return (
        key.device_id == device.device_id,
        key.target == device.label,
        key.threads == here.threads,
        key.tier == device.best_tier,
    )
