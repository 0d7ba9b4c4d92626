"""An examination in full: as JSON, and as lines for people."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from nnjit_studio import __version__
from nnjit_studio.device.measured import binary_size
from nnjit_studio.doctor.device_report import source_of
from nnjit_studio.doctor.examination import Examination
from nnjit_studio.doctor.gpu_survey import BridgeFinding, BrowserFinding
from nnjit_studio.errors import NnjitError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.support import display
from nnjit_studio.support.tables import text_table

PACKAGES = (
    "apache-tvm", "PySide6", "pyqtgraph", "onnx", "onnxruntime", "numpy", "sqlite-utils", "wgpu",
)  # fmt: skip


def report_json(found: Examination) -> dict[str, Any]:
    """The JSON document; ``ok`` is False when the embedded engine does not run."""
    failed = isinstance(found.engine, NnjitError)
    return {
        "ok": not failed,
        "versions": _versions(),
        "system": {"os": platform.platform(), "cores": os.cpu_count()},
        "display": _display(),
        "sandbox": _sandbox(found),
        "embedded": found.engine.to_json()
        if isinstance(found.engine, NnjitError)
        else {"ok": True, **asdict(found.engine)},
        "browsers": [_browser_json(finding) for finding in found.browsers],
        "wgpu": asdict(found.bridge or BridgeFinding()),
        "sqlite": dict(found.sqlite),
    }


def _browser_json(finding: BrowserFinding) -> dict[str, Any]:
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


def _versions() -> dict[str, str]:
    def version(package: str) -> str:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return "not installed"

    found = {name: version(name) for name in PACKAGES}
    return {"nnjit-studio": __version__, "python": platform.python_version(), **found}


def _display() -> str:
    if sys.platform != "linux":
        return "native"
    there, named = display.answering(), display.named()
    for name in there:
        return f"{name}={named[name]}"
    gone = ", ".join(f"{name}={value}" for name, value in named.items())
    return f"{f'{gone} does not answer' if gone else 'none'}: the window is drawn offscreen"


def _sandbox(found: Examination) -> str:
    return "not known, for the engine does not run" if found.sandbox is None else str(found.sandbox)


def as_text(found: Examination) -> str:
    """The report for people: labels, and what is behind them."""
    bridge = found.bridge or BridgeFinding()
    rows = [
        *_versions().items(),
        ("system", f"{platform.platform()}, {os.cpu_count()} cores"),
        ("display", _display()),
        ("sandbox", _sandbox(found)),
        *_engine(found.engine),
    ]
    for finding in found.browsers:
        rows += _browser(finding)
    if not found.browsers:
        rows.append(("browser", "none found"))
    rows.append(("wgpu-native", _bridge_line(bridge)))
    for adapter in bridge.adapters:
        rows += (("", line) for line in _adapter(adapter, adapter["software"]))
    facts = [f"{k} {v}" for k, v in found.sqlite.items() if k != "why"]
    rows += [("sqlite", ", ".join(facts)), ("", found.sqlite["why"])]
    return text_table(("", ""), rows, left=(0, 1))


def _engine(engine: DeviceProfile | NnjitError) -> Iterator[tuple[str, str]]:
    if isinstance(engine, NnjitError):
        yield "engine", f"does not run: {engine.error} {engine.hint}"
        return
    isolated = "yes" if engine.cross_origin_isolated else "no"
    peaks = ", ".join(f"{t} {g:.1f} GFLOP/s" for t, g in engine.peak_gflops.items())
    yield "engine", engine.user_agent
    yield (
        "",
        f"tiers {', '.join(engine.tiers)}; cross-origin isolated: {isolated}; "
        f"timer quantum {engine.timer_quantum_ms * 1e3:.0f} µs",
    )
    yield "", f"measured peak of one thread: {peaks}"
    limits = (
        ("vector_registers", f"{engine.vector_registers} vector registers"),
        ("l1_bytes", f"L1 {binary_size(engine.l1_bytes)}"),
        ("l2_bytes", f"L2 {binary_size(engine.l2_bytes)}"),
    )
    yield "device", ", ".join(f"{text} ({source_of(engine, name)})" for name, text in limits)


def _browser(finding: BrowserFinding) -> Iterator[tuple[str, str]]:
    browser = finding.browser
    version = f" ({finding.version})" if finding.version else ""
    yield "browser", f"{browser.name} at {browser.path}{version}"
    yield "", f"started with {finding.flags or 'no flags'}"
    if finding.gpu is None:
        yield "", f"no WebGPU adapter: {finding.reason}"
    else:
        yield from (("", line) for line in _adapter(asdict(finding.gpu), finding.software))


def _bridge_line(bridge: BridgeFinding) -> str:
    if bridge.reason:
        return f"does not run: {bridge.reason}"
    if not bridge.adapters:
        return "no adapter: install the GPU's driver; on Linux it must bring Vulkan"
    if not bridge.hardware:
        return "no GPU, software alone; --gpu software uses it"
    return "drives the embedded view's WebGPU"


def _adapter(adapter: Mapping[str, Any], software: str) -> Iterator[str]:
    """An adapter for people; software is never called a GPU."""
    parts = (adapter["vendor"], adapter["architecture"])
    name = adapter["description"] or " ".join(p for p in parts if p) or "unnamed adapter"
    what = f"software on the processor ({software}), no GPU:" if software else "GPU"
    driver = f", driver {adapter['driver']}" if adapter["driver"] else ""
    yield f"{what} {name} ({adapter['vendor']}{driver})"
    yield f"  {', '.join(adapter['features']) or 'no features'}"
    limits = adapter["limits"]
    sizes = (
        ("buffers", "maxBufferSize"),
        ("bindings", "maxStorageBufferBindingSize"),
        ("workgroup memory", "maxComputeWorkgroupStorageSize"),
    )
    facts = [f"{n} up to {binary_size(limits[key])}" for n, key in sizes if key in limits]
    if "maxComputeInvocationsPerWorkgroup" in limits:
        facts.append(f"{limits['maxComputeInvocationsPerWorkgroup']} invocations a workgroup")
    if adapter["subgroup_max"]:
        facts.append(f"subgroups of {adapter['subgroup_min']} to {adapter['subgroup_max']}")
    yield f"  {', '.join(facts)}"
