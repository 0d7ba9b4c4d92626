"""WebGPU adapters of this machine's browsers and of wgpu-native."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.engine.gpu_bridge.adapters import software_renderer
from nnjit_studio.engine.gpu_bridge.bridge import list_adapters
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.probes import gpu_device
from nnjit_studio.errors import NnjitError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_profile import GpuProfile

PAGE_TIMEOUT_S = 30.0
PROBE_TIMEOUT_S = 60.0
"""A software adapter measures its copies slowly; a missing one is asked for 2 s."""


@dataclass(frozen=True)
class BrowserFinding:
    """A browser and its adapter."""

    browser: Browser
    version: str = ""
    """As the program tells it, empty where it does not."""
    flags: str = ""
    """What it was started with."""
    gpu: GpuProfile | None = None
    """None without an adapter."""
    software: str = ""
    """The renderer behind the adapter where it is software, empty for a GPU."""
    reason: str = ""
    """Why there is no adapter."""


@dataclass(frozen=True)
class BridgeFinding:
    """What wgpu-native finds, as in :func:`nnjit_studio.engine.gpu_bridge.native.adapter_facts`."""

    adapters: tuple[dict[str, Any], ...] = ()
    reason: str = ""

    @property
    def hardware(self) -> list[dict[str, Any]]:
        """Adapters that are GPUs."""
        return [adapter for adapter in self.adapters if not adapter["software"]]


def survey_browser(browser: Browser, no_sandbox: bool, gpu: str = "hardware") -> BrowserFinding:
    """Start a browser headless on the engine's page and ask it for its adapter.

    ``gpu`` is one of :data:`~nnjit_studio.engine.browsers.flags.GPU_MODES`. A browser
    that does not start is a finding too.
    """
    version = browsers.version(browser)
    flags = ""
    try:
        with (
            Hub() as hub,
            browsers.launch(
                browser,
                hub.url,
                no_sandbox,
                on_exit=hub.report_lost,
                gpu=gpu,
                pages=lambda: hub.pages,
            ) as running,
        ):
            flags = running.flags
            hub.wait_for_page(PAGE_TIMEOUT_S)
            request = {"type": "gpu_probe", "implementation": "navigator", "flops": 0}
            reply, _ = hub.request(request, timeout_s=PROBE_TIMEOUT_S)
            if not reply.get("available"):
                return BrowserFinding(browser, version, flags, reason=str(reply.get("reason")))
            found = gpu_device(reply, DeviceProfile("", browser.name)).gpu
    except NnjitError as error:
        return BrowserFinding(browser, version, flags, reason=str(error))
    assert found is not None
    names = (found.vendor, found.architecture, found.device, found.description)
    software = software_renderer(*names, is_fallback=found.is_fallback)
    return BrowserFinding(browser, version, flags, found, software)


def survey_bridge() -> BridgeFinding:
    """Ask wgpu-native; that it cannot be asked is a finding too."""
    try:
        return BridgeFinding(tuple(list_adapters()))
    except NnjitError as error:
        return BridgeFinding(reason=str(error))
