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
from nnjit_studio.device.measured import binary_size
from nnjit_studio.doctor.gpu_survey import BrowserFinding, survey_bridge, survey_browser
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.errors import NnjitError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.support import display

PACKAGES = (
    "apache-tvm",
    "PySide6",
    "pyqtgraph",
    "onnx",
    "onnxruntime",
    "numpy",
    "sqlite-utils",
    "wgpu",
)


def examine(
    probe: Callable[[], tuple[DeviceProfile, Sandbox]], no_sandbox: bool, gpu: str = "hardware"
) -> dict[str, Any]:
    """Collect the report; ``probe`` starts the embedded view, asks its page, looks at its process.

    ``no_sandbox`` is for the browsers.
    ``gpu`` is the adapter that the browsers are started for, ``hardware`` or ``software``.

    Returns
    -------
    dict
        A JSON document. ``ok`` is False when the embedded engine does not
        run; everything else is a fact without a verdict.
    """
    try:
        device, found = probe()
        embedded: dict[str, Any] = {"ok": True, **asdict(device)}
        sandbox = str(found)
    except NnjitError as e:
        embedded = e.to_json()
        sandbox = "not known, for the engine does not run"
    return {
        "ok": embedded["ok"],
        "versions": {
            "nnjit-studio": __version__,
            "python": platform.python_version(),
            **{name: _version(name) for name in PACKAGES},
        },
        "system": {"os": platform.platform(), "cores": os.cpu_count()},
        "display": _display(),
        "sandbox": sandbox,
        "embedded": embedded,
        "browsers": [browser_json(survey_browser(b, no_sandbox, gpu)) for b in browsers.find_all()],
        "wgpu": asdict(survey_bridge()),
        "sqlite": sqlite_safety(),
    }


def browser_json(finding: BrowserFinding) -> dict[str, Any]:
    """``adapter`` is null without one; ``software`` names the renderer where it is no GPU."""
    browser = finding.browser
    return {
        "name": browser.name,
        "kind": browser.kind,
        "path": str(browser.path),
        "version": finding.version,
        "flags": finding.flags,
        "adapter": asdict(finding.gpu) if finding.gpu else None,
        "software": finding.software,
        "reason": finding.reason,
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _display() -> str:
    if sys.platform != "linux":
        return "native"
    there, named = display.answering(), display.named()
    for name in there:
        return f"{name}={named[name]}"
    gone = ", ".join(f"{name}={value}" for name, value in named.items())
    return f"{f'{gone} does not answer' if gone else 'none'}: the window is drawn offscreen"


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


def _bridge_line(bridge: dict[str, Any]) -> str:
    if bridge["reason"]:
        return f"does not run: {bridge['reason']}"
    if not bridge["adapters"]:
        return "no adapter: install the GPU's driver; on Linux it must bring Vulkan"
    if all(adapter["software"] for adapter in bridge["adapters"]):
        return "no GPU, software alone; --gpu software uses it"
    return "drives the embedded view's WebGPU"


def _adapter_lines(adapter: dict[str, Any], software: str) -> list[str]:
    """An adapter for people; software is never called a GPU."""
    parts = (adapter["vendor"], adapter["architecture"])
    name = adapter["description"] or " ".join(p for p in parts if p) or "unnamed adapter"
    what = f"software on the processor ({software}), no GPU:" if software else "GPU"
    driver = f", driver {adapter['driver']}" if adapter["driver"] else ""
    limits = adapter["limits"]
    sizes = (
        (label, binary_size(limits[key]))
        for label, key in (
            ("buffers", "maxBufferSize"),
            ("bindings", "maxStorageBufferBindingSize"),
            ("workgroup memory", "maxComputeWorkgroupStorageSize"),
        )
        if key in limits
    )
    facts = [f"{label} up to {size}" for label, size in sizes]
    if "maxComputeInvocationsPerWorkgroup" in limits:
        facts.append(f"{limits['maxComputeInvocationsPerWorkgroup']} invocations a workgroup")
    if adapter["subgroup_max"]:
        facts.append(f"subgroups of {adapter['subgroup_min']} to {adapter['subgroup_max']}")
    return [
        f"{'':<14} {what} {name} ({adapter['vendor']}{driver})",
        f"{'':<14}   {', '.join(adapter['features']) or 'no features'}",
        f"{'':<14}   {', '.join(facts)}",
    ]


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
        version = f" ({browser['version']})" if browser["version"] else ""
        lines.append(f"{'browser':<14} {browser['name']} at {browser['path']}{version}")
        lines.append(f"{'':<14} started with {browser['flags'] or 'no flags'}")
        if browser["adapter"]:
            lines += _adapter_lines(browser["adapter"], browser["software"])
        else:
            lines.append(f"{'':<14} no WebGPU adapter: {browser['reason']}")
    if not report["browsers"]:
        lines.append(f"{'browser':<14} none found")
    lines.append(f"{'wgpu-native':<14} {_bridge_line(report['wgpu'])}")
    for adapter in report["wgpu"]["adapters"]:
        lines += _adapter_lines(adapter, adapter["software"])
    sqlite = report["sqlite"]
    lines.append(f"{'sqlite':<14} " + ", ".join(f"{k} {v}" for k, v in sqlite.items()))
    return "\n".join(lines)
