"""Chromium's sandbox: what switches it off, and whether the page's process is in one."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from nnjit_studio.support import processes

NO_SANDBOX = "--no-sandbox"
FLAGS_VARIABLE = "QTWEBENGINE_CHROMIUM_FLAGS"
OFF_VARIABLE = "QTWEBENGINE_DISABLE_SANDBOX"

_LOOKS, _BETWEEN_S = 10, 0.1
"""A process that has just started is not in its sandbox yet."""


@dataclass(frozen=True)
class Confinement:
    """What keeps a page's process from the machine; both parts make the sandbox."""

    namespaces: bool
    """Its own view of processes, and with it of files and the network."""
    filtered: bool
    """Its system calls are filtered (seccomp), more than those of the Studio itself."""


@dataclass(frozen=True)
class Sandbox:
    """Of the engine that runs the page."""

    off_by: str = ""
    """What switches it off, such as ``--no-sandbox``; empty where nothing does."""
    seen: Confinement | None = None
    """Of the page's process; None where there is none, or the system does not tell."""

    @property
    def on(self) -> bool:
        """As the page's process shows it, else as the flags have it."""
        if self.seen is None:
            return not self.off_by
        return self.seen.namespaces and self.seen.filtered

    @property
    def asked_off(self) -> bool:
        """Whether the option ``--no-sandbox`` was given, which holds for browsers too."""
        return self.off_by == NO_SANDBOX

    def __str__(self) -> str:
        if self.on:
            return "on by its flags" if self.seen is None else "on"
        by = "the option it was started with" if self.asked_off else self.off_by
        reason = f", by {by}" if by else ""
        if self.seen is not None and self.seen.namespaces:
            return f"off in part{reason}: system calls are not filtered"
        if self.seen is not None and self.seen.filtered:
            return f"off in part{reason}: the page's process has no namespaces of its own"
        return f"off{reason}"


UNTOUCHED = Sandbox()


def switched_off_by(no_sandbox: bool) -> str:
    """What switches the embedded view's sandbox off; empty where nothing does.

    ``no_sandbox`` is the option of that name. Ask before ``check_sandbox`` writes it into
    the environment.
    """
    if no_sandbox:
        return NO_SANDBOX
    if os.environ.get(OFF_VARIABLE) == "1":
        return f"{OFF_VARIABLE}=1"
    if NO_SANDBOX in os.environ.get(FLAGS_VARIABLE, "").split():
        return f"{NO_SANDBOX} in {FLAGS_VARIABLE}"
    return ""


def look(told: Sandbox) -> Sandbox:
    """The same, with what the processes of the pages show; call it while a page runs."""
    seen = _least()
    for _ in range(_LOOKS):
        if seen is None or told.off_by or (seen.namespaces and seen.filtered):
            break
        time.sleep(_BETWEEN_S)
        seen = _least()
    return replace(told, seen=seen)


def confinement(renderer: Mapping[str, str], own: Mapping[str, str]) -> Confinement | None:
    """Compare the fields of two ``/proc/PID/status``; None where they do not tell.

    A container filters the system calls of all its processes, and may be a namespace itself:
    what the page's process has in common with the Studio is not its sandbox.
    """
    if not all("NSpid" in fields and "Seccomp" in fields for fields in (renderer, own)):
        return None
    deeper = len(renderer["NSpid"].split()) > len(own["NSpid"].split())
    return Confinement(deeper, _filters(renderer) > _filters(own))


def _filters(status: Mapping[str, str]) -> int:
    """How many filters of system calls; kernels before 5.9 tell only whether there is one."""
    filtered = status["Seccomp"] == "2"
    return int(status.get("Seccomp_filters", filtered))


def _least() -> Confinement | None:
    """What all renderers have."""
    own = processes.status("self")
    every = [confinement(processes.status(pid), own) for pid in processes.renderers()]
    known = [one for one in every if one is not None]
    if not known:
        return None
    return Confinement(all(c.namespaces for c in known), all(c.filtered for c in known))
