"""Switches and preferences that browsers are started with, each with its reason."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SMALL_SHM_BYTES = 256 * 1024 * 1024
"""Containers give 64 MiB of /dev/shm, too little for Chromium's pipes."""

HIDDEN_DRIVERS = "VK_LOADER_DRIVERS_DISABLE"
SOFTWARE_DRIVERS = "*lvp*"

GPU_MODES = ("", "hardware", "software", "lab")
"""Which adapter the browser is to have: whatever it finds, a GPU, software, or a GPU with
what browsers keep behind switches, which no visitor of a page has."""

_DEAD_PORT = 9
"""Of 127.0.0.1: discard, where nobody listens."""
OFF_THE_NET = f"--proxy-server=http://127.0.0.1:{_DEAD_PORT}"
"""Chromium asks this proxy, which is not there, for whatever is not on loopback: no name is
looked up and no packet leaves, whichever of its services asks."""

_CHROMIUM = (
    "--no-first-run",
    "--no-default-browser-check",
    "--password-store=basic",
    "--use-mock-keychain",
    "--disable-extensions",
    "--disable-breakpad",
    # Nothing leaves the machine; the first of them is enough, the others ask less often.
    OFF_THE_NET,
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-pings",
    # The menus of the address bar are pages with a process: more than half of what a start costs.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
    # A page that nobody looks at works at full speed.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
# Names of adapter and driver, and timestamps of 32 ns instead of 65,536.
NAMED_ADAPTER = ("--enable-webgpu-developer-features",)
# Without these two, Chromium on Linux silently takes SwiftShader.
LINUX_GPU = ("--use-angle=vulkan", "--enable-features=Vulkan")
# Without a display: NVIDIA's driver has no headless surface, and compositing on the GPU
# costs the page its first adapter.
LINUX_HEADLESS_GPU = ("--disable-vulkan-surface", "--disable-gpu-compositing")
# Experimental features, such as subgroup matrices; f16, which Dawn keeps from NVIDIA's driver.
LAB_GPU = ("--enable-unsafe-webgpu", "--enable-dawn-features=vulkan_enable_f16_on_nvidia")
SOFTWARE_GPU = (
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--enable-features=Vulkan",
    "--use-vulkan=swiftshader",
    "--use-angle=swiftshader",
    # SwiftShader zeroes an array of a workgroup by one store for each element, which it compiles
    # for seconds; without the extension Dawn writes a loop into the shader.
    "--disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension",
)

# Release builds ignore some preferences of single services, but not those of the network.
_FIREFOX_OFF_THE_NET: dict[str, bool | int | str] = {
    "network.dns.disabled": True,
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": _DEAD_PORT,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": _DEAD_PORT,
    "network.proxy.no_proxies_on": "127.0.0.1",
    # Firefox's own services would go round a proxy that does not answer.
    "network.proxy.allow_bypass": False,
    "network.proxy.failover_direct": False,
    "network.trr.mode": 5,
    # A program of its own, which knows no preferences.
    "toolkit.telemetry.shutdownPingSender.enabled": False,
}
_FIREFOX_PREFERENCES: dict[str, bool | int | str] = {
    **_FIREFOX_OFF_THE_NET,
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.downloads.remote.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.ipc.processPriorityManager.enabled": False,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": f"http://127.0.0.1:{_DEAD_PORT}/",
    "toolkit.telemetry.enabled": False,
}
_FIREFOX_GPU: dict[str, bool | int | str] = {
    "dom.webgpu.enabled": True,
    "dom.webgpu.workers.enabled": True,
    "gfx.webgpu.ignore-blocklist": True,
}


@dataclass(frozen=True)
class Browser:
    """``name`` is what ``--target`` takes; ``kind`` is ``chromium``, ``firefox`` or ``webkit``."""

    name: str
    kind: str
    path: Path


@dataclass(frozen=True)
class Extras:
    """Differences from an ordinary start, for those that look into an engine or at a page.

    Attributes
    ----------
    switches
        Of Chromium's command line.
    firefox_switches
        Of Firefox's command line.
    preferences
        Of Firefox.
    on_output
        Gets each line that the browser and its pages print, on a thread of its own.
    headless
        Without a window.
    """

    switches: tuple[str, ...] = ()
    preferences: Mapping[str, bool | int | str] = field(default_factory=dict)
    on_output: Callable[[str], None] | None = None
    firefox_switches: tuple[str, ...] = ()
    headless: bool = True


NO_EXTRAS = Extras()


def command_line(
    browser: Browser,
    url: str,
    profile: Path,
    no_sandbox: bool,
    headless: bool,
    gpu: str = "",
    extra: tuple[str, ...] = (),
) -> list[str]:
    """The program and its switches, with ``extra`` ones of its kind; the address comes last."""
    if browser.kind == "firefox":
        switches = [*_firefox_switches(profile, headless), *extra]
    else:
        switches = [*_chromium_switches(profile, no_sandbox, headless, gpu), *extra]
    return [str(browser.path), *switches, url]


def _chromium_switches(profile: Path, no_sandbox: bool, headless: bool, gpu: str) -> list[str]:
    """For Chromium, Chrome and Edge; ``gpu`` is one of :data:`GPU_MODES`."""
    switches = list(_CHROMIUM)
    if headless:
        switches.append("--headless=new")
    if no_sandbox:
        switches.append("--no-sandbox")
    if shared_memory_is_small():
        switches.append("--disable-dev-shm-usage")
    switches += gpu_switches(gpu, headless)
    return [*switches, f"--user-data-dir={profile}"]


def gpu_switches(gpu: str, headless: bool) -> tuple[str, ...]:
    """What WebGPU needs of Chromium on this system; a software adapter only where asked for."""
    if not gpu:
        return ()
    if gpu == "software":
        return (*NAMED_ADAPTER, *SOFTWARE_GPU)
    switches = (*NAMED_ADAPTER, *(LAB_GPU if gpu == "lab" else ()))
    if platform.system() != "Linux":
        return switches
    return (*switches, *LINUX_GPU, *(LINUX_HEADLESS_GPU if headless else ()))


def environment(gpu: str) -> dict[str, str]:
    """The environment that a browser is started with.

    Where a GPU is asked for, Vulkan's loader on Linux is told to hide Mesa's
    renderer on the processor: Chromium cannot draw with it, tries for ever, and a
    page that asks for an adapter never gets an answer.
    """
    variables = dict(os.environ)
    if gpu in ("hardware", "lab") and platform.system() == "Linux":
        hidden = variables.get(HIDDEN_DRIVERS)
        variables[HIDDEN_DRIVERS] = f"{hidden},{SOFTWARE_DRIVERS}" if hidden else SOFTWARE_DRIVERS
    return variables


def _firefox_switches(profile: Path, headless: bool) -> list[str]:
    switches = ["--headless"] if headless else []
    return [*switches, "--no-remote", "--new-instance", "--profile", str(profile)]


def write_firefox_preferences(
    profile: Path, gpu: str, extra: Mapping[str, bool | int | str]
) -> None:
    """Firefox has preferences where Chromium has switches; WebGPU's are untested here."""
    preferences = {**_FIREFOX_PREFERENCES, **(_FIREFOX_GPU if gpu else {}), **extra}
    lines = (
        f'user_pref("{name}", {str(value).lower() if isinstance(value, bool) else repr(value)});'
        for name, value in preferences.items()
    )
    (profile / "user.js").write_text("\n".join(lines).replace("'", '"') + "\n")


def shared_memory_is_small() -> bool:
    if platform.system() != "Linux":
        return False
    try:
        status = os.statvfs("/dev/shm")
    except OSError:
        return True
    return status.f_frsize * status.f_blocks < SMALL_SHM_BYTES
