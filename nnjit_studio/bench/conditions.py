"""Conditions of a measurement: when, on what machine, under which load."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from typing import Any

from nnjit_studio import __version__
from nnjit_studio.device.host import cpu_name
from nnjit_studio.records import DeviceProfile


def utc_now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def load_average() -> list[float]:
    """Of the last 1, 5 and 15 minutes; empty where the system does not tell."""
    return [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else []


def measured_now(load_before: list[float] | None, versions: Mapping[str, str]) -> dict[str, Any]:
    """The fields of a result's document that say under which conditions it was measured."""
    return {
        "date": utc_now(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load_average": {"before": load_before, "after": load_average()},
        "versions": {"nnjit-studio": __version__, **versions},
    }


def measured_on(
    device: DeviceProfile, load_before: list[float], compiler_version: str
) -> dict[str, Any]:
    """The same of a result that was measured in a page, with its browser and target."""
    return {
        "browser": device.user_agent,
        "flags": device.flags,
        "target": device.target,
        **measured_now(load_before, {"compiler": compiler_version}),
    }


def conditions(result: Mapping[str, Any]) -> str:
    """The conditions of a result in a sentence."""
    load = result.get("load_average") or {}
    versions = ", ".join(f"{name} {v}" for name, v in result["versions"].items())
    return (
        f"{result['date']}; {result['cpu']}, {result['cores']} cores; "
        f"{result.get('browser', 'no browser')}; {versions}; "
        f"load average (1, 5, 15 min) before {load.get('before')}, after {load.get('after')}."
    )


def threads_text(threads: int) -> str:
    """Such as ``2 threads``."""
    return f"{threads} thread{'s' if threads > 1 else ''}"
