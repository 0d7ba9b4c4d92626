"""What must be set before QtWebEngine starts its processes."""

from __future__ import annotations

import logging
import os
import sys

# Shiboken walks over sys.modules when it is loaded: it aborts the program where another thread
# imports something meanwhile, such as the hub its WebSockets. So before any thread is started.
import PySide6.QtCore  # noqa: F401

from nnjit_studio.engine.browsers.browsers import is_root
from nnjit_studio.errors import UserError
from nnjit_studio.records.lab import LABS

FLAGS_VARIABLE = "QTWEBENGINE_CHROMIUM_FLAGS"
NO_SANDBOX = "--no-sandbox"

_FLAGS = (
    # A hidden page's timers run once a second without it (measured: 8 instead of 771 in 8 s).
    "--disable-background-timer-throttling",
    # Keeps the priority of a hidden page's process; makes no difference on Linux (measured).
    "--disable-renderer-backgrounding",
)
_QUIET = "--log-level=3"
"""Only fatal lines of Chromium on stderr. What fails in the page comes as a signal of
the view; the rest is talk about services that a machine may lack, such as D-Bus."""


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
    off = NO_SANDBOX in flags or os.environ.get("QTWEBENGINE_DISABLE_SANDBOX") == "1"
    if is_root() and not (no_sandbox or off):
        raise UserError(
            "The embedded view does not start as root with its sandbox.",
            "Run as another user, or give --no-sandbox.",
        )
    wanted = (*_FLAGS, NO_SANDBOX) if no_sandbox or off else _FLAGS
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
    """Without a display, draw into memory (Linux); whether anybody can see the window."""
    displays = ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in displays):
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
        return False
    return True
