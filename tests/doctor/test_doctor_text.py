"""What the doctor says of the device that sessions build on."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_page import FakePage

from nnjit_studio.device.host import FROM_SYSTEM
from nnjit_studio.doctor import examination, gpu_survey
from nnjit_studio.doctor import report as doctor
from nnjit_studio.doctor.examination import Examination, examine
from nnjit_studio.doctor.gpu_survey import BridgeFinding, BrowserFinding, survey_browser
from nnjit_studio.doctor.report import as_text, report_json
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.browsers import RunningBrowser
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.engine.browsers.sandbox import UNTOUCHED, Confinement, Sandbox
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.errors import TargetError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_profile import GpuProfile

KNOWN = DeviceProfile(
    "a" * 16, "embedded", l1_bytes=49152, l2_bytes=1 << 21, sources={"l1_bytes": FROM_SYSTEM}
)

CHROMIUM = Browser("chromium", "chromium", Path("/b/chromium"))
GPU = GpuProfile(
    vendor="acme",
    architecture="roadrunner",
    description="ACME 9000",
    driver="1.2",
    features=("shader-f16", "timestamp-query"),
    limits={"maxBufferSize": 2**32, "maxComputeInvocationsPerWorkgroup": 1024},
    subgroup_min=16,
    subgroup_max=32,
)
SWIFTSHADER = replace(GPU, vendor="google", architecture="swiftshader", description="")
LLVMPIPE = {
    "description": "llvmpipe",
    "vendor": "mesa",
    "architecture": "",
    "driver": "Mesa 22 (Vulkan)",
    "features": [],
    "limits": {},
    "subgroup_min": 0,
    "subgroup_max": 0,
    "software": "llvmpipe",
}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the surveys find; no browser is started."""
    found: dict[str, Any] = {"browsers": (), "bridge": BridgeFinding()}
    monkeypatch.setattr(browsers, "find_all", lambda: found["browsers"])
    monkeypatch.setattr(examination, "survey_bridge", lambda: found["bridge"])
    return found


def examined(device: DeviceProfile = KNOWN, sandbox: Sandbox | None = UNTOUCHED) -> Examination:
    def probe() -> DeviceProfile:
        if sandbox is None:
            raise TargetError("It does not start.", "Mend it.")
        return device

    return examine(probe, lambda: sandbox, Path.cwd(), no_sandbox=True)


def report_of(monkeypatch: pytest.MonkeyPatch, *findings: BrowserFinding) -> Examination:
    by_browser = {finding.browser: finding for finding in findings}
    monkeypatch.setattr(browsers, "find_all", lambda: tuple(by_browser))
    monkeypatch.setattr(examination, "survey_browser", lambda b, no_sandbox, gpu: by_browser[b])
    return examined()


def test_a_gpu_is_named_with_what_matters(
    machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    report = report_of(monkeypatch, BrowserFinding(CHROMIUM, "Chromium 156", "--x", GPU))
    text = as_text(report)
    assert "browser       chromium at /b/chromium (Chromium 156)" in text
    assert "started with --x" in text
    assert "synchronous full\n" in text and ", why" not in text
    assert "GPU ACME 9000 (acme, driver 1.2)" in text
    assert "shader-f16, timestamp-query" in text
    assert "buffers up to 4096 MiB, 1024 invocations a workgroup, subgroups of 16 to 32" in text
    (found,) = json.loads(json.dumps(report_json(report)))["browsers"]
    assert found["version"] == "Chromium 156"
    assert found["flags"] == "--x"
    assert found["software"] == ""
    assert found["adapter"]["description"] == "ACME 9000"
    assert found["adapter"]["limits"]["maxBufferSize"] == 2**32


def test_software_is_never_called_a_gpu(
    machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine["bridge"] = BridgeFinding((LLVMPIPE,))
    finding = BrowserFinding(CHROMIUM, gpu=SWIFTSHADER, software="SwiftShader")
    text = as_text(report_of(monkeypatch, finding))
    assert "software on the processor (SwiftShader), no GPU: google swiftshader" in text
    assert "wgpu-native   no GPU, software alone; --gpu software uses it" in text
    assert "software on the processor (llvmpipe), no GPU: llvmpipe" in text
    assert " GPU ACME" not in text
    assert not any(line.strip().startswith("GPU ") for line in text.splitlines())


def test_what_is_missing_is_said(machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = as_text(report_of(monkeypatch, BrowserFinding(CHROMIUM, reason="It is blocked.")))
    assert "no WebGPU adapter: It is blocked." in text
    assert "no adapter: install the GPU's driver" in text
    machine["bridge"] = BridgeFinding(reason="The package wgpu cannot be loaded.")
    assert "does not run: The package wgpu" in as_text(report_of(monkeypatch))
    assert "none found" in as_text(report_of(monkeypatch))


PROBED = {
    "type": "gpu_probed",
    "available": True,
    "reason": "",
    "vendor": "google",
    "architecture": "swiftshader",
    "device": "0xc0de",
    "description": "SwiftShader Device",
    "driver": "SwiftShader driver",
    "is_fallback": False,
    "implementation": "navigator",
    "features": ["shader-f16"],
    "language_features": [],
    "limits": {"maxBufferSize": 2**28},
    "subgroup_min": 4,
    "subgroup_max": 4,
    "timestamp_quantum_ns": 1,
    "peak_gflops": 0,
    "copy_gbs": 1.5,
    "dispatch_us": 2.5,
}


@pytest.mark.parametrize(
    ("answer", "software", "reason"),
    [
        (PROBED, "SwiftShader", ""),
        ({**PROBED, "architecture": "", "description": "ACME", "is_fallback": True}, "a soft", ""),
        ({**PROBED, "architecture": "", "description": "ACME"}, "", ""),
        ({**PROBED, "available": False, "reason": "Blocked."}, "", "Blocked."),
        ({"type": "error", "error": "It broke.", "hint": ""}, "", "It broke."),
    ],
)
def test_a_browser_is_asked_for_its_adapter(
    monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], software: str, reason: str
) -> None:
    asked: list[dict[str, Any]] = []
    opened: list[Hub] = []

    class SeenHub(Hub):
        def __init__(self) -> None:
            super().__init__()
            opened.append(self)

    def reply(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        asked.append(header)
        page.reply(header, answer)

    @contextmanager
    def launch(browser: Browser, url: str, no_sandbox: bool, *, gpu: str, **watched: Any) -> Any:
        page = FakePage(opened[0], reply)
        yield RunningBrowser(browser, f"--for-{gpu}")
        page.close()

    monkeypatch.setattr(gpu_survey, "Hub", SeenHub)
    monkeypatch.setattr(browsers, "launch", launch)
    monkeypatch.setattr(browsers, "version", lambda browser: "Chromium 156")
    finding = survey_browser(CHROMIUM, no_sandbox=True)
    assert asked[0]["type"] == "gpu_probe"
    assert asked[0]["implementation"] == "navigator"
    assert (finding.version, finding.flags) == ("Chromium 156", "--for-hardware")
    assert finding.software.startswith(software) and bool(finding.software) == bool(software)
    assert finding.reason.startswith(reason) and bool(finding.reason) == bool(reason)
    assert (finding.gpu is None) == bool(reason)


def test_a_browser_that_does_not_start_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def launch(*args: Any, **options: Any) -> Any:
        raise TargetError("It does not start.", "Mend it.")
        yield

    monkeypatch.setattr(browsers, "launch", launch)
    finding = survey_browser(CHROMIUM, no_sandbox=True)
    assert (finding.gpu, finding.reason) == (None, "It does not start. Mend it.")


def test_every_limit_has_its_source(machine: dict[str, Any]) -> None:
    measured = replace(KNOWN, sources={**KNOWN.sources, "l2_bytes": "measured 2026-11-21"})
    lines = as_text(examined(measured)).splitlines()
    (line,) = [line for line in lines if line.startswith("device ")]
    assert line.split(maxsplit=1)[1] == (
        "16 vector registers (assumed), L1 48 KiB (from the system), L2 2 MiB (measured 2026-11-21)"
    )


def test_the_sandbox_is_told_as_it_runs(
    machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def line(sandbox: Sandbox | None) -> str:
        lines = as_text(examined(sandbox=sandbox)).splitlines()
        return next(line.split(maxsplit=1)[1] for line in lines if line.startswith("sandbox "))

    bare = Confinement(namespaces=False, filtered=False)
    assert line(Sandbox("", Confinement(True, True))) == "on"
    assert line(Sandbox("", bare)) == "off"
    by = "QTWEBENGINE_DISABLE_SANDBOX=1"
    assert line(Sandbox(by, bare)) == f"off, by {by}"

    assert line(None) == "not known, for the engine does not run"


def test_a_display_that_does_not_answer_is_told(
    machine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor.sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":57077")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    report = report_json(examined())
    assert report["display"] == "DISPLAY=:57077 does not answer: the window is drawn offscreen"
