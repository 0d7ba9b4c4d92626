"""Profiles for other viewers: speedscope's format with every thread, or DevTools' own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nnjit_studio.engine.devtools.sampling import ThreadProfile
from nnjit_studio.foreign_wasm.inspection.hotspots.samples import IDLE, parents_of, samples_of

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
"""The name of the format; nobody asks that address for anything."""


def speedscope(threads: Sequence[ThreadProfile]) -> dict[str, Any]:
    """All threads in one file (format of speedscope, version 0.0.1)."""
    frames: dict[tuple[str, str], int] = {}
    profiles = [_profile(thread, frames) for thread in threads]
    shared = [{"name": name, **({"file": url} if url else {})} for name, url in frames]
    return {"$schema": SCHEMA, "shared": {"frames": shared}, "profiles": profiles}


def busiest(threads: Sequence[ThreadProfile]) -> dict[str, Any]:
    """The profile of the thread with the most time that is not idle, as DevTools saves it."""

    def busy(thread: ThreadProfile) -> int:
        idle = {
            n["id"]
            for n in thread.profile["nodes"]
            if n["callFrame"]["functionName"] in (*IDLE, "(program)")
        }
        return sum(1 for node in thread.profile.get("samples", ()) if node not in idle)

    return dict(max(threads, key=busy).profile)


def _profile(thread: ThreadProfile, frames: dict[tuple[str, str], int]) -> dict[str, Any]:
    stacks: dict[int, list[int]] = {}
    parents = parents_of(thread.profile["nodes"])
    for node in thread.profile["nodes"]:  # parents come before children
        call = node["callFrame"]
        key = call["functionName"] or "(anonymous)", call["url"]
        above = stacks.get(parents.get(node["id"], -1), [])
        stacks[node["id"]] = [*above, frames.setdefault(key, len(frames))]
    samples = list(samples_of(thread.profile))
    return {
        "type": "sampled",
        "name": f"{thread.kind} {thread.url}".strip(),
        "unit": "microseconds",
        "startValue": 0,
        "endValue": sum(us for _, us in samples),
        "samples": [stacks[node] for node, _ in samples],
        "weights": [us for _, us in samples],
    }
