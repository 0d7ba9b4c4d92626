"""What this machine can do: versions, display, engine, browsers, database safety."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from nnjit_studio import __version__
from nnjit_studio.database import sqlite_safety
from nnjit_studio.errors import NnjitError
from nnjit_studio.link import browsers
from nnjit_studio.space.measured_device import binary_size
from nnjit_studio.space.records import DeviceProfile

PACKAGES = ("apache-tvm", "PySide6", "pyqtgraph", "onnx", "onnxruntime", "numpy", "sqlite-utils")


def examine(probe: Callable[[], DeviceProfile], no_sandbox: bool) -> dict[str, Any]:
    """Collect the report; ``probe`` starts the embedded view and asks its page.

    Returns
    -------
    dict
        A JSON document. ``ok`` is False when the embedded engine does not
        run; everything else is a fact without a verdict.
    """
    try:
        device = probe()
        embedded: dict[str, Any] = {"ok": True, **asdict(device)}
    except NnjitError as e:
        embedded = e.to_json()
    return {
        "ok": embedded["ok"],
        "versions": {
            "nnjit-studio": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "system": {"os": platform.platform(), "cores": os.cpu_count()},
        "display": _display(),
        "sandbox": "off, as asked by --no-sandbox" if no_sandbox else "on",
        "embedded": embedded,
        "browsers": [asdict(b) | {"path": str(b.path)} for b in browsers.find_all()],
        "sqlite": sqlite_safety(),
    }


def _display() -> str:
    if sys.platform != "linux":
        return "native"
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        if os.environ.get(name):
            return f"{name}={os.environ[name]}"
    return "none: the window is drawn offscreen"


def _limits(embedded: dict[str, Any]) -> str:
    """Registers and capacities of a profile, and where each is from."""

    def told(name: str, value: str) -> str:
        return f"{value} ({embedded['sources'].get(name, 'assumed')})"

    caches = (
        told(name, f"{label} {binary_size(embedded[name])}")
        for name, label in (("l1_bytes", "L1"), ("l2_bytes", "L2"))
    )
    registers = f"{embedded['vector_registers']} vector registers"
    return ", ".join((told("vector_registers", registers), *caches))


def as_text(report: dict[str, Any]) -> str:
    """The report for people."""
    embedded = report["embedded"]
    lines = [f"{name:<14} {version}" for name, version in report["versions"].items()]
    lines += [
        f"{'system':<14} {report['system']['os']}, {report['system']['cores']} cores",
        f"{'display':<14} {report['display']}",
        f"{'sandbox':<14} {report['sandbox']}",
    ]
    if embedded["ok"]:
        peaks = ", ".join(f"{t} {g:.1f} GFLOP/s" for t, g in embedded["peak_gflops"].items())
        lines += [
            f"{'engine':<14} {embedded['user_agent']}",
            f"{'':<14} tiers {', '.join(embedded['tiers'])}; cross-origin isolated: "
            f"{'yes' if embedded['cross_origin_isolated'] else 'no'}; "
            f"timer quantum {embedded['timer_quantum_ms'] * 1e3:.0f} us",
            f"{'':<14} measured peak of one thread: {peaks}",
            f"{'device':<14} {_limits(embedded)}",
        ]
    else:
        lines.append(f"{'engine':<14} does not run: {embedded['error']} {embedded['hint']}")
    for browser in report["browsers"]:
        lines.append(f"{'browser':<14} {browser['name']} at {browser['path']}")
    if not report["browsers"]:
        lines.append(f"{'browser':<14} none found")
    sqlite = report["sqlite"]
    lines.append(f"{'sqlite':<14} " + ", ".join(f"{k} {v}" for k, v in sqlite.items()))
    return "\n".join(lines)
