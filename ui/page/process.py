"""Settings that QtWebEngine needs before it starts its processes."""

from __future__ import annotations

import logging
import os
import sys

# Shiboken walks over sys.modules when it is loaded: it aborts the program where another thread
# imports something meanwhile, such as the hub its WebSockets. So before any thread is started.
import PySide6.QtCore  # noqa: F401

from nnjit_studio.engine.browsers.browsers import is_root
from nnjit_studio.engine.browsers.flags import OFF_THE_NET, shared_memory_is_small
from nnjit_studio.engine.browsers.sandbox import FLAGS_VARIABLE, NO_SANDBOX, switched_off_by
from nnjit_studio.errors import UserError
from nnjit_studio.records.lab import LABS
from nnjit_studio.support import display

_FLAGS = (
    # The page loads nothing from elsewhere; this holds for the engine's own services too.
    OFF_THE_NET,
    # A hidden page's timers run once a second without it (measured: 8 instead of 771 in 8 s).
    "--disable-background-timer-throttling",
    # Keeps the priority of a hidden page's process; makes no difference on Linux (measured).
    "--disable-renderer-backgrounding",
)
PLATFORM_VARIABLE = "QT_QPA_PLATFORM"
_ON_DISPLAYS = ("xcb", "wayland")
_QUIET = "--log-level=3"
"""Only fatal lines of Chromium on stderr. What fails in the page comes as a signal of
the view; the rest concerns services that a machine may lack, such as D-Bus."""


def check_sandbox(no_sandbox: bool, lab: str = "") -> str:
    """Set the engine's flags, and its sandbox off where that was asked for.

    ``lab`` names one of :data:`~nnjit_studio.records.lab.LABS`.

    Call it before the first view or profile is made: the engine reads its
    environment once.

    Returns
    -------
    str
        The flags of the engine, as they are stored with every measurement.

    Raises
    ------
    UserError
        As root on Linux without ``no_sandbox``: Chromium's sandbox cannot
        work there, and it is not switched off unasked. With ``lab`` when
        there are other flags for V8, of which the engine takes one set alone.
    """
    flags = os.environ.get(FLAGS_VARIABLE, "").split()
    off = bool(switched_off_by(no_sandbox))
    if is_root() and not off:
        raise UserError(
            "The embedded view does not start as root with its sandbox.",
            "Run as another user, or give --no-sandbox.",
        )
    wanted = (*_FLAGS, NO_SANDBOX) if off else _FLAGS
    if shared_memory_is_small():
        wanted = (*wanted, "--disable-dev-shm-usage")
    if lab and any(flag.startswith("--js-flags") and flag != LABS[lab] for flag in flags):
        raise UserError(
            f"{FLAGS_VARIABLE} has --js-flags, which --lab {lab} would replace.",
            f"Leave one of them out, or write {LABS[lab]} there too.",
        )
    wanted = (*wanted, LABS[lab]) if lab else wanted
    flags += [flag for flag in wanted if flag not in flags]
    loud = logging.getLogger("nnjit.page").isEnabledFor(logging.DEBUG)
    quiet = [] if loud or any(flag.startswith("--log-level") for flag in flags) else [_QUIET]
    os.environ[FLAGS_VARIABLE] = " ".join((*flags, *quiet))
    return " ".join(flag for flag in flags if flag != _QUIET)


def choose_platform() -> bool:
    """Without a display that answers, draw into memory (Linux).

    Returns
    -------
    bool
        Whether anybody can see the window.
    """
    chosen = os.environ.get(PLATFORM_VARIABLE, "")
    if not sys.platform.startswith("linux") or (chosen and not chosen.startswith(_ON_DISPLAYS)):
        return True
    there = display.answering()
    if not there:
        os.environ[PLATFORM_VARIABLE] = "offscreen"
    elif len(there) < len(display.named()):
        os.environ[PLATFORM_VARIABLE] = next(iter(there.values()))
    return bool(there)
