"""Keeps Python's constants alive under PySide6 6.12 on Python before 3.12.

Measured with 6.12.0 on Python 3.11.7: every call that returns nothing drops
one reference to ``None``, and some drop one to ``True`` or ``False``. Since
Python 3.12 these objects are immortal (PEP 683) and the count does not
matter; before, the interpreter aborts with "deallocating None" after some
thousand calls, that is, after seconds of use.
"""

from __future__ import annotations

import ctypes
import sys

LENT = 1 << 40
"""References that are never given back: at 10 million calls a second, 30 hours' worth."""


def hold_constants() -> bool:
    """Raise the reference counts of the constants; False where Python needs no help."""
    if sys.version_info >= (3, 12):
        return False
    for constant in (None, True, False):
        # CPython's object begins with its reference count, a Py_ssize_t.
        ctypes.c_ssize_t.from_address(id(constant)).value += LENT
    return True
