"""Database look-ups: this device's measured limits, and a workload's best kernel on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import device_id, host_profile
from nnjit_studio.device.measured import with_measured
from nnjit_studio.model import Workload
from nnjit_studio.records import TIERS, DeviceProfile, TuningRecord
from nnjit_studio.records.backend import is_software
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate
from nnjit_studio.records.lab import is_lab


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
    won = [
        r
        for r in database.all_records(workload=workload.key)
        if (r.state, r.workload) == ("won", workload.key)
        and r.key.compiler_version == here.compiler_version
        and r.key.tier in here.tiers
        and (here.software or not is_software(r.key.target))
        and is_lab(r.key.target) == is_lab(here.target)
    ]
    best = max(won, key=lambda record: _likeness(record, here), default=None)
    if best is None or best.settings == DEFAULT_SETTINGS:
        return None
    return parse_candidate(best.settings)


def _likeness(record: TuningRecord, here: Here) -> tuple[bool, ...]:
    key, device = record.key, here.device
    if device is None:
        return key.device_id == device_id(), key.threads == here.threads
    return (
        key.device_id == device.device_id,
        key.target == device.label,
        key.threads == here.threads,
        key.tier == device.best_tier,
    )
