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


@pytest.mark.parametrize(
    ("variable", "expected"),
    [(None, "offscreen"), ("DISPLAY", None), ("WAYLAND_DISPLAY", None)],
)
def test_without_a_display_it_draws_into_memory(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, expected: str | None
) -> None:
    monkeypatch.setattr(process.sys, "platform", "linux")
    for name in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    if variable:
        monkeypatch.setenv(variable, ":0")
    choose_platform()
    assert os.environ.get("QT_QPA_PLATFORM") == expected
