"""What the compile process gives up before it reads a stranger's file: network and writes.

Landlock (Linux 5.13) confines writes to one folder, seccomp refuses sockets. Both
bind every thread that starts afterwards, so this runs before the numerical libraries load.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Landlock's system calls; the same numbers on every architecture."""
_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
"""Removing and making of files, folders, links, sockets and devices."""
_REFER = 1 << 13


def confine(writable: Sequence[Path]) -> tuple[str, ...]:
    """Give up what a compile process does not need, for ever; returns what holds now.

    Parameters
    ----------
    writable : folders or files that stay writable, with all that is in them.

    Returns
    -------
    ``"files"`` and ``"network"``, each only where the kernel and its library could do it.
    """
    if sys.platform != "linux":
        return ()
    steps = {"files": lambda: _confine_writes(writable), "network": _refuse_sockets}
    held = []
    for name, step in steps.items():
        with contextlib.suppress(OSError, ImportError, RuntimeError):
            step()
            held.append(name)
    return tuple(held)


class _Ruleset(ctypes.Structure):
    _fields_ = (("handled_files", ctypes.c_uint64),)


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _confine_writes(writable: Sequence[Path]) -> None:
    abi = _call(_CREATE, None, 0, _VERSION)
    of_files = _WRITE_FILE | (_TRUNCATE if abi >= 3 else 0)
    handled = of_files | _REMOVE_AND_MAKE | (_REFER if abi >= 2 else 0)
    rules = _call(_CREATE, ctypes.byref(_Ruleset(handled)), ctypes.sizeof(_Ruleset), 0)
    try:
        for path in writable:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = handled if path.is_dir() else of_files
            try:
                _call(_ADD, rules, _PATH_BENEATH, ctypes.byref(_Beneath(allowed, place)), 0)
            finally:
                os.close(place)
        _no_new_privileges()
        _call(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _refuse_sockets() -> None:
    if platform.machine() not in ("x86_64", "aarch64"):
        raise OSError(errno.ENOSYS, "no system call table for this machine")
    import pyseccomp

    _no_new_privileges()
    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    for name in ("socket", "ptrace", "process_vm_writev"):
        rules.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
    rules.load()


def _no_new_privileges() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def _call(number: int, *arguments: object) -> int:
    done: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    if done < 0:
        raise OSError(ctypes.get_errno(), f"system call {number}")
    return done
