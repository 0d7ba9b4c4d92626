from __future__ import annotations

import logging
import os

import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.records.lab import LABS, lab_of
from nnjit_studio.ui.page import process
from nnjit_studio.ui.page.process import FLAGS_VARIABLE, check_sandbox, choose_platform


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS_VARIABLE, "")
    monkeypatch.delenv("QTWEBENGINE_DISABLE_SANDBOX", raising=False)
    monkeypatch.setattr(process, "is_root", lambda: False)


def test_root_is_asked_for_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "is_root", lambda: True)
    with pytest.raises(UserError) as caught:
        check_sandbox(False)
    assert "--no-sandbox" in caught.value.hint
    assert os.environ[FLAGS_VARIABLE] == ""
    assert "--no-sandbox" in check_sandbox(True).split()
    assert "--no-sandbox" in os.environ[FLAGS_VARIABLE].split()


def test_the_sandbox_stays_on_unless_asked() -> None:
    assert "--no-sandbox" not in check_sandbox(False).split()
    assert "--disable-background-timer-throttling" in os.environ[FLAGS_VARIABLE].split()


def test_a_sandbox_switched_off_outside_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QTWEBENGINE_DISABLE_SANDBOX", "1")
    assert "--no-sandbox" in check_sandbox(False).split()


def test_the_engine_has_no_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS_VARIABLE, "--proxy-server=http://elsewhere:80")
    check_sandbox(False)
    proxies = [f for f in os.environ[FLAGS_VARIABLE].split() if f.startswith("--proxy-server")]
    assert proxies[-1] == "--proxy-server=http://127.0.0.1:9"  # Chromium takes the last


def test_flags_of_the_user_stay_and_nothing_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FLAGS_VARIABLE, "--js-flags=--experimental-wasm-revectorize")
    first = check_sandbox(True)
    assert first.split()[0] == "--js-flags=--experimental-wasm-revectorize"
    assert check_sandbox(True) == first
    flags = os.environ[FLAGS_VARIABLE].split()
    assert len(flags) == len(set(flags))


def test_a_lab_mode_is_a_flag_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = check_sandbox(False, "revectorize")
    assert lab_of(flags) == "revectorize"
    assert LABS["revectorize"] in os.environ[FLAGS_VARIABLE].split()
    assert check_sandbox(False) == flags, "the second call keeps the mode"
    monkeypatch.setenv(FLAGS_VARIABLE, "--js-flags=--no-liftoff")
    with pytest.raises(UserError, match="--js-flags"):
        check_sandbox(False, "revectorize")


def test_chromium_talks_when_the_page_is_debugged(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("nnjit.page")
    monkeypatch.setattr(logger, "isEnabledFor", lambda level: True)
    check_sandbox(False)
    assert "--log-level=3" not in os.environ[FLAGS_VARIABLE]
    monkeypatch.setattr(logger, "isEnabledFor", lambda level: False)
    check_sandbox(False)
    assert "--log-level=3" in os.environ[FLAGS_VARIABLE]


BOTH = {"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}


@pytest.mark.parametrize(
    ("asked", "named", "there", "expected", "seen"),
    [
        ("", {}, {}, "offscreen", False),
        ("", {"DISPLAY": ":0"}, {"DISPLAY": "xcb"}, "", True),
        ("", {"DISPLAY": ":0"}, {}, "offscreen", False),
        ("xcb", {"DISPLAY": ":0"}, {}, "offscreen", False),
        ("wayland-egl", {}, {}, "offscreen", False),
        ("offscreen", {"DISPLAY": ":0"}, {}, "offscreen", True),
        ("", BOTH, {"WAYLAND_DISPLAY": "wayland", "DISPLAY": "xcb"}, "", True),
        ("", BOTH, {"DISPLAY": "xcb"}, "xcb", True),
        ("xcb", BOTH, {"WAYLAND_DISPLAY": "wayland"}, "wayland", True),
    ],
)
def test_without_a_display_that_answers_it_draws_into_memory(
    monkeypatch: pytest.MonkeyPatch,
    asked: str,
    named: dict[str, str],
    there: dict[str, str],
    expected: str,
    seen: bool,
) -> None:
    monkeypatch.setattr(process.sys, "platform", "linux")
    monkeypatch.setattr(process.display, "named", lambda: named)
    monkeypatch.setattr(process.display, "answering", lambda: there)
    monkeypatch.setenv("QT_QPA_PLATFORM", asked)
    assert choose_platform() == seen
    assert os.environ["QT_QPA_PLATFORM"] == expected
