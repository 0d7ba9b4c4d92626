"""The sandbox is told from the page's process, and from the flags only where it does not show."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nnjit_studio.engine.browsers import sandbox
from nnjit_studio.engine.browsers.sandbox import (
    Confinement,
    Sandbox,
    confinement,
    look,
    switched_off_by,
)
from nnjit_studio.support import processes
from nnjit_studio.support.processes import parse_status, renderers, status

STUDIO = """Name:\tnnjit
NSpid:\t19307
NoNewPrivs:\t0
Seccomp:\t0
Seccomp_filters:\t0
"""
PAGE = """Name:\tQtWebEngineProc
NSpid:\t19366\t12\t1
NoNewPrivs:\t1
Seccomp:\t2
Seccomp_filters:\t1
"""
BARE = STUDIO.replace("NoNewPrivs:\t0", "NoNewPrivs:\t1").replace("19307", "18495")


def in_container(text: str) -> str:
    """The same behind the filter that a container has for all its processes."""
    filters = int(parse_status(text)["Seccomp_filters"])
    kept = text[: text.index("Seccomp:")]
    return f"{kept}Seccomp:\t2\nSeccomp_filters:\t{filters + 1}\n"


def without_count(text: str) -> str:
    return text[: text.index("Seccomp_filters")]


@pytest.mark.parametrize(
    ("page", "own", "expected"),
    [
        (PAGE, STUDIO, Confinement(True, True)),
        (BARE, STUDIO, Confinement(False, False)),
        (in_container(BARE), in_container(STUDIO), Confinement(False, False)),
        (in_container(PAGE), in_container(STUDIO), Confinement(True, True)),
        (without_count(PAGE), without_count(STUDIO), Confinement(True, True)),
        (without_count(BARE), without_count(STUDIO), Confinement(False, False)),
        (BARE.replace("18495", "18495\t1"), STUDIO, Confinement(True, False)),
        (PAGE.replace("\t12\t1", ""), STUDIO, Confinement(False, True)),
        ("", STUDIO, None),
        (PAGE, "", None),
    ],
)
def test_what_both_have_is_no_sandbox(page: str, own: str, expected: Confinement | None) -> None:
    assert confinement(parse_status(page), parse_status(own)) == expected


@pytest.mark.parametrize(
    ("told", "on", "text"),
    [
        (Sandbox(), True, "on by its flags"),
        (Sandbox("--no-sandbox"), False, "off, by the option it was started with"),
        (Sandbox("", Confinement(True, True)), True, "on"),
        (Sandbox("--no-sandbox", Confinement(True, True)), True, "on"),
        (Sandbox("", Confinement(False, False)), False, "off"),
        (Sandbox("X=1", Confinement(False, False)), False, "off, by X=1"),
        (
            Sandbox("", Confinement(True, False)),
            False,
            "off in part: system calls are not filtered",
        ),
        (
            Sandbox("", Confinement(False, True)),
            False,
            "off in part: the page's process has no namespaces of its own",
        ),
    ],
)
def test_what_runs_goes_before_what_was_asked(told: Sandbox, on: bool, text: str) -> None:
    assert (told.on, str(told)) == (on, text)


def test_every_way_to_switch_it_off_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(sandbox.OFF_VARIABLE, raising=False)
    monkeypatch.setenv(sandbox.FLAGS_VARIABLE, "--disable-gpu")
    assert switched_off_by(False) == ""
    assert switched_off_by(True) == "--no-sandbox"
    assert Sandbox(switched_off_by(True)).asked_off
    monkeypatch.setenv(sandbox.FLAGS_VARIABLE, "--disable-gpu --no-sandbox")
    assert switched_off_by(False) == "--no-sandbox in QTWEBENGINE_CHROMIUM_FLAGS"
    assert not Sandbox(switched_off_by(False)).asked_off, "of the embedded view alone"
    monkeypatch.setenv(sandbox.OFF_VARIABLE, "1")
    assert switched_off_by(False) == "QTWEBENGINE_DISABLE_SANDBOX=1"


def test_the_weakest_page_counts_and_a_starting_one_has_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = {"self": STUDIO, "1": PAGE, "2": BARE}
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            texts["2"] = PAGE

    monkeypatch.setattr(sandbox.time, "sleep", sleep)
    monkeypatch.setattr(processes, "renderers", lambda: [1, 2])
    monkeypatch.setattr(processes, "status", lambda pid: parse_status(texts[str(pid)]))
    assert look(Sandbox()).on and len(slept) == 3
    texts["2"] = BARE
    assert not look(Sandbox("--no-sandbox")).on and len(slept) == 3, "nothing to wait for"
    assert not look(Sandbox()).on
    monkeypatch.setattr(processes, "renderers", lambda: [])
    assert look(Sandbox("--no-sandbox")) == Sandbox("--no-sandbox")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_processes_without_children_are_pages_of_a_zygote() -> None:
    leaf = [sys.executable, "-c", "print('here', flush=True); input()", "--type=zygote"]

    def within(inner: list[str], *flags: str) -> list[str]:
        code = f"import subprocess; subprocess.run({inner!r})"
        return [sys.executable, "-c", code, "--type=zygote", *flags]

    def found(command: list[str]) -> list[dict[str, str]]:
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin and process.stdout
            assert process.stdout.readline().strip() == b"here"
            fields = [status(pid) for pid in renderers()]
            process.stdin.write(b"\n")
            process.stdin.close()
        return fields

    (page,) = found(within(within(leaf)))
    assert int(page["PPid"]) != 0 and confinement(page, status("self")) == Confinement(False, False)
    assert found(within(leaf, "--no-zygote-sandbox")) == []
