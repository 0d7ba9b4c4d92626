"""The plan that won for a model on this device, so that its next import takes it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import device_id
from nnjit_studio.model import ImportOptions
from nnjit_studio.model.plan_choice import parse
from nnjit_studio.records import DeviceProfile, KernelKey
from nnjit_studio.records.outcomes import WON
from nnjit_studio.tuner.plan.rounds import KIND
from nnjit_studio.workbench.stored_best import Here

_DIGITS = 16


def digest_of(path: Path, importing: ImportOptions) -> str:
    """Of a model's file and all that shapes its import, the choices themselves apart."""
    found = hashlib.sha256(path.read_bytes())
    found.update(repr(replace(importing, ways={})).encode())
    return found.hexdigest()[:_DIGITS]


def plan_key(digest: str, device: DeviceProfile, version: str) -> KernelKey:
    """The key under which plans of a model are stored."""
    return KernelKey(
        kind=KIND,
        dims="",
        dtype="",
        layout="",
        fingerprint=digest,
        primitive_vector=device.primitive_vector,
        device_id=device.device_id,
        target=device.label,
        tier=device.best_tier,
        compiler_version=version,
    )


def stored_ways(
    database: KernelDatabase, path: Path, importing: ImportOptions, here: Here
) -> dict[str, str]:
    """The choices of the newest winner for a model, here; none where nothing won."""
    if not database.all_records(1, workload=f"{KIND}:"):
        return {}  # no model's file is read for nothing
    digest = digest_of(path, importing)
    for record in database.all_records(workload=f"#{digest}", state=WON):
        key = record.key
        same = key.kind == KIND and key.compiler_version == here.compiler_version
        target = re.sub(r"/\d+t$", "", key.target)
        place = target, key.threads, key.device_id
        if same and place == (here.target, here.threads, device_id()):
            return parse(record.settings)
    return {}
