from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until

from nnjit_studio.engine.browsers import browsers, webkit
from nnjit_studio.engine.browsers import flags as browser_flags
from nnjit_studio.engine.browsers.browsers import find, find_all, launch
from nnjit_studio.engine.browsers.flags import Browser, command_line
from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.errors import TargetError

posix = pytest.mark.skipif(sys.platform == "win32", reason="the fake browser is a shell script")
URL = "http://127.0.0.1:1/?token=secret"

Script = Callable[[str], Browser]


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Makes a browser out of a shell script."""

    def make(body: str) -> Browser:
        path = tmp_path / "chromium"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return Browser("chromium", "chromium", path)

    return make


def is_running(pid: int) -> bool:
    """A zombie, whose new parent has not looked yet, has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it ended just now, or there is no /proc
        return not Path("/proc/self/stat").exists()
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def test_webkit_is_taken_where_its_driver_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webkit, "look_for", lambda: None)
    with pytest.raises(TargetError, match="No webkitgtk was found"):
        find("webkitgtk")
    found = Browser(webkit.NAME, webkit.KIND, Path("/nowhere"))
    monkeypatch.setattr(webkit, "look_for", lambda: found)
    assert find("webkitgtk") == found and found not in find_all()


def test_root_must_ask_for_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsers, "is_root", lambda: True)
    chromium = Browser("chromium", "chromium", Path("/nowhere"))
    with pytest.raises(TargetError) as caught, launch(chromium, URL):
        pass
    assert "--no-sandbox" in caught.value.hint


def test_the_sandbox_stays_on_unless_asked() -> None:
    chromium = Browser("chromium", "chromium", Path("/b"))
    assert "--no-sandbox" not in command_line(chromium, URL, Path("/p"), False, True)
    assert "--no-sandbox" in command_line(chromium, URL, Path("/p"), True, True)


def test_a_window_is_shown_when_asked() -> None:
    for browser, switch in (("chromium", "--headless=new"), ("firefox", "--headless")):
        subject = Browser(browser, browser, Path("/b"))
        assert switch in command_line(subject, URL, Path("/p"), False, True)
        shown = command_line(subject, URL, Path("/p"), False, False)
        assert switch not in shown
        assert shown[-1] == URL


def test_small_shared_memory_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    chromium = Browser("chromium", "chromium", Path("/b"))
    for small in (True, False):
        monkeypatch.setattr(browser_flags, "shared_memory_is_small", lambda answer=small: answer)
        command = command_line(chromium, URL, Path("/p"), False, True)
        assert ("--disable-dev-shm-usage" in command) == small


@posix
def test_profile_is_private_hides_the_token_and_goes(script: Script, tmp_path: Path) -> None:
    seen = tmp_path / "arguments"
    browser = script(f'echo "$@" > {seen}.new; mv {seen}.new {seen}; sleep 60')
    with launch(browser, URL, no_sandbox=True) as running:
        until(seen.exists)
        arguments = seen.read_text().split()
        (profile,) = (Path(a.partition("=")[2]) for a in arguments if "--user-data-dir" in a)
        assert stat.S_IMODE(profile.stat().st_mode) == 0o700
        assert "secret" not in " ".join(arguments)
        assert URL in (profile / "start.html").read_text()
        assert arguments[-1] == (profile / "start.html").as_uri()
        assert str(profile) not in running.flags
        assert "--no-sandbox" in running.flags.split()
    assert not profile.exists()


@posix
def test_children_end_with_the_browser(script: Script, tmp_path: Path) -> None:
    children = tmp_path / "child"
    browser = script(
        f"(trap '' TERM; sleep 60) & echo $! > {children}.new; mv {children}.new {children}; wait"
    )
    before = set(threading.enumerate())
    with launch(browser, URL, no_sandbox=True) as running:
        until(children.exists)
        child = int(children.read_text())
        assert is_running(child)
    until(lambda: not is_running(child))
    assert not is_running(running.pid)
    until(lambda: set(threading.enumerate()) <= before)


@posix
def test_a_killed_studio_leaves_no_browser(script: Script, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    browser = script(f'echo "$$" "$@" > {seen}.new; mv {seen}.new {seen}; sleep 60')
    program = (
        "import time; from pathlib import Path\n"
        "from nnjit_studio.engine.browsers.browsers import *\n"
        f"with launch(Browser('b', 'chromium', Path({str(browser.path)!r})), 'x', True):\n"
        "    print('started', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as studio:
        assert studio.stdout is not None
        assert studio.stdout.readline() == b"started\n"  # from here on somebody inherits
        until(seen.exists)
        pid, *arguments = seen.read_text().split()
        (profile,) = (Path(a.partition("=")[2]) for a in arguments if "--user-data-dir" in a)
        assert profile.exists()
        assert is_running(int(pid))
        studio.kill()
    until(lambda: not is_running(int(pid)) and not profile.exists())


@posix
def test_a_browser_that_ends_early_fails_the_wait_with_its_last_words(script: Script) -> None:
    browser = script("echo 'cannot open display' >&2; exit 3")
    with (
        Hub() as hub,
        launch(browser, hub.url, no_sandbox=True, on_exit=hub.report_lost),
        pytest.raises(TargetError, match=r"ended by itself with code 3.*cannot open display"),
    ):
        hub.wait_for_page(60)


@posix
def test_an_end_that_we_made_is_no_failure(script: Script) -> None:
    reasons: list[str] = []
    with launch(script("sleep 60"), URL, no_sandbox=True, on_exit=reasons.append):
        pass
    assert reasons == []


def test_a_program_that_cannot_start_is_named(tmp_path: Path) -> None:
    browser = Browser("chromium", "chromium", tmp_path / "missing")
    with (
        pytest.raises(TargetError, match=r"missing.* does not start"),
        launch(browser, URL, no_sandbox=True),
    ):
        pass


@posix
def test_find_knows_names_and_paths(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script("exit 0").path
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(browsers.platform, "system", lambda: "Linux")
    assert find("chromium") == Browser("chromium", "chromium", path)
    assert find_all() == (Browser("chromium", "chromium", path),)
    assert find(str(path)).path == path
    with pytest.raises(TargetError, match="No firefox was found"):
        find("firefox")
    for bad in ("netscape", str(tmp_path)):
        with pytest.raises(TargetError, match="neither a known browser nor a program"):
            find(bad)


def test_firefox_gets_preferences_in_its_profile(tmp_path: Path) -> None:
    browser_flags.write_firefox_preferences(tmp_path, "hardware", {"a.b": True})
    lines = (tmp_path / "user.js").read_text().splitlines()
    assert 'user_pref("toolkit.telemetry.enabled", false);' in lines
    assert 'user_pref("services.settings.server", "http://127.0.0.1:9/");' in lines
    assert 'user_pref("dom.webgpu.enabled", true);' in lines
    assert 'user_pref("network.dns.disabled", true);' in lines
    assert 'user_pref("a.b", true);' in lines
    assert 'user_pref("network.proxy.ssl_port", 9);' in lines
    assert all(line.startswith('user_pref("') and line.endswith(");") for line in lines)
    browser_flags.write_firefox_preferences(tmp_path, "", {})
    assert "webgpu" not in (tmp_path / "user.js").read_text()


@pytest.mark.parametrize("gpu", browser_flags.GPU_MODES)
def test_chromium_has_no_way_out_whatever_its_adapter(gpu: str) -> None:
    edge = Browser("edge", "chromium", Path("/b"))
    command = command_line(edge, URL, Path("/p"), True, True, gpu)
    assert command.count("--proxy-server=http://127.0.0.1:9") == 1
    assert not any(switch.startswith("--proxy-bypass-list") for switch in command)


def test_gpu_switches_are_only_those_that_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def switches(gpu: str, headless: bool = True, system: str = "Linux") -> str:
        monkeypatch.setattr(browser_flags.platform, "system", lambda: system)
        return " ".join(browser_flags.gpu_switches(gpu, headless))

    assert switches("") == ""
    assert "swiftshader" in switches("software")
    assert "--disable-dawn-features=use_vulkan_zero_init" in switches("software")
    for system in ("Linux", "Darwin", "Windows"):
        assert "swiftshader" not in switches("hardware", system=system)
        assert "unsafe" not in switches("hardware", system=system)
        assert "--disable-dawn-features" not in switches("hardware", system=system)
    assert "--use-angle=vulkan --enable-features=Vulkan" in switches("hardware")
    assert "--disable-vulkan-surface" in switches("hardware")
    assert "--enable-unsafe-webgpu" in switches("lab") and "swiftshader" not in switches("lab")
    assert "--disable-vulkan-surface" not in switches("hardware", headless=False)
    assert "vulkan" not in switches("hardware", system="Darwin")
    chromium = Browser("chromium", "chromium", Path("/b"))
    assert "webgpu" not in " ".join(command_line(chromium, URL, Path("/p"), False, True))
    asked = command_line(chromium, URL, Path("/p"), False, True, "software")
    assert "--use-webgpu-adapter=swiftshader" in asked
    assert asked[-1] == URL


@posix
def test_software_drivers_are_hidden_where_a_gpu_is_asked_for(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser_flags.platform, "system", lambda: "Linux")
    monkeypatch.delenv("VK_LOADER_DRIVERS_DISABLE", raising=False)
    seen = tmp_path / "seen"
    browser = script(f'echo "[$VK_LOADER_DRIVERS_DISABLE]" > {seen}.new; mv {seen}.new {seen}')
    for gpu, hidden in (("", "[]"), ("software", "[]"), ("hardware", "[*lvp*]")):
        with launch(browser, URL, no_sandbox=True, gpu=gpu):
            until(seen.exists)
        assert seen.read_text().strip() == hidden
        seen.unlink()
    monkeypatch.setenv("VK_LOADER_DRIVERS_DISABLE", "*mine*")
    assert browser_flags.environment("hardware")["VK_LOADER_DRIVERS_DISABLE"] == "*mine*,*lvp*"


@posix
def test_a_browser_that_crashes_is_started_again_with_a_new_profile(
    script: Script, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    browser = script(f'echo "$$" "$@" >> {seen}; sleep 60')
    told: list[str] = []

    def starts() -> list[list[str]]:
        return [line.split() for line in seen.read_text().splitlines()] if seen.exists() else []

    def profile_of(arguments: list[str]) -> Path:
        return next(Path(a.partition("=")[2]) for a in arguments if "--user-data-dir" in a)

    with launch(
        browser,
        URL,
        no_sandbox=True,
        on_exit=told.append,
        on_return=lambda comes: told.append(f"again: {comes}"),
    ) as running:
        until(lambda: len(starts()) == 1)
        first = running.pid
        os.killpg(first, signal.SIGKILL)
        until(lambda: len(starts()) == 2 and running.pid != first)
        assert running.crashes == 1
        before, after = (profile_of(arguments) for arguments in starts())
        assert before != after
        assert not before.exists()
        assert (after / "start.html").exists()
        assert "ended by itself with code -9" in told[0]
        assert told[1:] == ["again: True"]
    assert not is_running(running.pid)
    assert not after.exists()


@posix
def test_a_browser_that_keeps_crashing_is_given_up(script: Script) -> None:
    told: list[str] = []
    again: list[bool] = []
    with launch(
        script("echo no luck >&2; exit 7"),
        URL,
        no_sandbox=True,
        on_exit=told.append,
        on_return=again.append,
    ):
        until(lambda: "given up" in (told or [""])[-1])
        until(lambda: len(again) > browsers.RESTARTS)
        assert again == [True] * browsers.RESTARTS + [False]
        assert "started again 3 times within 60 s" in told[-1]
        assert "code 7" in told[-1]
        assert "no luck" in told[-1]


@posix
def test_a_browser_that_stops_while_it_is_restarted_ends(script: Script) -> None:
    before = set(threading.enumerate())
    with launch(
        script("exit 1"), URL, no_sandbox=True, on_return=lambda comes: time.sleep(0.05)
    ) as running:
        until(lambda: running.crashes)
    until(lambda: set(threading.enumerate()) <= before)
    assert not is_running(running.pid)


@posix
def test_a_browser_that_is_ended_for_its_page_is_started_again(script: Script) -> None:
    with launch(script("sleep 60"), URL, no_sandbox=True, on_return=lambda comes: None) as running:
        first = running.pid
        running.end()
        until(lambda: running.pid != first)
        assert running.crashes == 1
        assert is_running(running.pid)
    running.end()  # harmless


@posix
def test_the_version_is_what_the_program_says(script: Script) -> None:
    assert browsers.version(script("echo noise; echo 'Fakium 156.0.1'")) == "Fakium 156.0.1"
    assert browsers.version(script("exit 3")) == ""
    assert browsers.version(Browser("x", "chromium", Path("/nowhere/x"))) == ""
