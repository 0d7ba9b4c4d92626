"""Displays that answer: Qt aborts the program where a variable names one that does not."""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path

_PLATFORMS = {"WAYLAND_DISPLAY": "wayland", "DISPLAY": "xcb"}
"""Qt's name of what draws on the display of each variable, in the order in which Qt tries."""

_XCB = "libxcb.so.1"


def named() -> dict[str, str]:
    """The variables of this Linux session that name a display, with their values."""
    return {name: os.environ[name] for name in _PLATFORMS if os.environ.get(name)}


def answering() -> dict[str, str]:
    """Those of :func:`named` whose display answers, each with Qt's platform for it."""
    answers = {"WAYLAND_DISPLAY": _wayland_answers, "DISPLAY": _x_answers}
    return {name: _PLATFORMS[name] for name in named() if answers[name]()}


def unanswered() -> str:
    """Every variable whose display does not answer, such as ``DISPLAY=:77``."""
    there = answering()
    return ", ".join(f"{name}={value}" for name, value in named().items() if name not in there)


def _wayland_answers() -> bool:
    path = Path(os.environ.get("XDG_RUNTIME_DIR", ""), os.environ["WAYLAND_DISPLAY"])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except (OSError, ValueError):  # a path too long for a socket
            return False
    return True


def _x_answers() -> bool:
    """Asked as Qt does, through libxcb: it knows all spellings, and may not be let in."""
    try:
        xcb = ctypes.CDLL(_XCB)
    except OSError:  # then Qt cannot draw there either
        return False
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connect.argtypes = (ctypes.c_char_p, ctypes.c_void_p)
    xcb.xcb_connection_has_error.argtypes = (ctypes.c_void_p,)
    xcb.xcb_disconnect.argtypes = (ctypes.c_void_p,)
    connection = xcb.xcb_connect(os.fsencode(os.environ["DISPLAY"]), None)
    try:
        return not xcb.xcb_connection_has_error(connection)
    finally:
        xcb.xcb_disconnect(connection)
