"""Findings made of the kernel database's records: nothing else of them travels."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime

from nnjit_studio.commons.report.checks import check_finding
from nnjit_studio.commons.report.document import MOST_FINDINGS, TOP, Finding, Place, Timing
from nnjit_studio.errors import CommonsError
from nnjit_studio.records import TIERS, DeviceProfile, TuningRecord
from nnjit_studio.records.candidate import DEFAULT_SETTINGS
from nnjit_studio.records.lab import is_lab
from nnjit_studio.records.outcomes import COMPARED, WON
from nnjit_studio.records.tuning import KernelKey

_ENGINES = (
    ("firefox", re.compile(r"Firefox/(\d+)")),
    ("chromium", re.compile(r"(?:Chrome|Chromium)/(\d+)")),
    ("webkit", re.compile(r"Version/(\d+).*Safari/")),
)
_TOGETHER_S = 3600
"""Seconds after a default's measurement in which times compare with it: a session."""


def place_of(key: KernelKey, host: DeviceProfile, user_agent: str) -> Place | None:
    """The key as it travels; None where the engine is unknown.

    Parameters
    ----------
    host
        This machine as its system tells: its family is made of it.
    user_agent
        Of the browser that measured; only engine and major version of it travel.
    """
    known = ((name, pattern.search(user_agent)) for name, pattern in _ENGINES)
    engine, version = next(((name, found) for name, found in known if found), ("", None))
    if version is None:
        return None
    return Place(
        kind=key.kind,
        dims=key.dims,
        dtype=key.dtype,
        layout=key.layout,
        primitives=key.primitive_vector,
        family=family_of(host),
        device=key.device_id,
        engine="embedded" if key.target.startswith("embedded") else engine,
        version=int(version[1]),
        tier=key.tier,
        threads=key.threads,
        compiler=key.compiler_version,
    )


def family_of(host: DeviceProfile) -> str:
    """What processors of like hardware share."""
    caches = f"l1.{host.l1_bytes // 1024}k-l2.{host.l2_bytes // 1024}k"
    return f"cpu-{host.vector_registers}v-{caches}"


def findings_of(records: Sequence[TuningRecord], host: DeviceProfile) -> list[Finding]:
    """What this device found out, the newest first; at most what one report may hold.

    Only Wasm kernels that this kind of device measured outside of a laboratory mode, in duels with
    an interval, in a session that also timed the default.
    """
    keys: dict[KernelKey, list[TuningRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda r: r.created, reverse=True):
        key = record.key
        if key.device_id == host.device_id and key.tier in TIERS and not is_lab(key.target):
            keys[key].append(record)
    found: dict[Place, Finding] = {}
    for key, known in keys.items():
        for finding in _finding(key, known, host):
            found.setdefault(finding.place, finding)
    return list(found.values())[:MOST_FINDINGS]


def _finding(
    key: KernelKey, records: Sequence[TuningRecord], host: DeviceProfile
) -> Iterator[Finding]:
    default = next((r for r in records if r.state == DEFAULT_SETTINGS and r.samples_ms), None)
    if default is None:
        return
    began = datetime.fromisoformat(default.created)
    whole = timing_of(default)
    best: dict[str, Timing] = {}
    incumbent: tuple[float, ...] = (1.0, 1.0, 1.0)
    for record in sorted(records, key=lambda r: r.created):
        duel = (record.speedup, record.speedup_low, record.speedup_high)
        over = tuple(a * b for a, b in zip(incumbent, duel, strict=True))
        after = (datetime.fromisoformat(record.created) - began).total_seconds()
        if record.state in COMPARED and all(over) and 0 <= after <= _TOGETHER_S:
            best[record.settings] = _in_turns(record, whole.ms, over)
        if record.state == WON:
            incumbent = over
    place = place_of(key, host, default.browser)
    if place is None or not best:
        return
    top = tuple(sorted(best.values(), key=lambda t: t.ms)[:TOP])
    finding = Finding(place, whole, top)
    try:
        check_finding(finding)
    except CommonsError:
        return  # of a kind that the schema has no words for
    yield finding


def _in_turns(record: TuningRecord, default_ms: float, over: Sequence[float]) -> Timing:
    """What a kernel takes where the default takes ``default_ms``.

    By its duels, in which two kernels run in turns: times of different moments do not compare,
    least of all with those from before the engine was warm.
    """
    ms, low_ms, high_ms = (round(default_ms / x, 6) for x in (over[0], over[2], over[1]))
    return Timing(record.settings, ms, low_ms, high_ms, len(record.samples_ms))


def timing_of(record: TuningRecord) -> Timing:
    """Median of the samples with its 95 % interval from their order."""
    samples = sorted(record.samples_ms)
    count = len(samples)
    half = 0.98 * math.sqrt(count)
    low = samples[max(0, math.floor(count / 2 - half))]
    high = samples[min(count - 1, math.ceil(count / 2 + half))]
    middle = (samples[(count - 1) // 2] + samples[count // 2]) / 2
    ms, low_ms, high_ms = (round(t, 6) for t in (middle, low, high))
    return Timing(record.settings, ms, low_ms, high_ms, count)
