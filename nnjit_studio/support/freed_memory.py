"""Freed memory goes back to the system.

glibc keeps freed blocks between those that are in use, in an arena for each of a
few threads: while a model was tuned the window grew by 25 MiB a minute in them, for
some 20 minutes, with the same blocks in use. In two hours eight arenas of 64 MiB held
310 MiB for 90 MiB in use; so there are two of them. Once glibc has freed a mapped block it
takes blocks of that size, up to 32 MiB, from an arena, where small ones above them keep it from
shrinking; so blocks from 1 MiB on are always mapped by themselves. The compile process has a limit
of memory, which counts what is kept too: a model's reference at several sizes would exceed it.
"""

from __future__ import annotations

import ctypes

ARENAS = 2
MAPPED = 1 << 20
"""Bytes from which a block is mapped by itself."""
_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
"""Of glibc's malloc.h."""


def few_arenas() -> bool:
    """Whether threads share glibc's arenas from now on, and large blocks are mapped; to be called
    before they start."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
        return bool(mallopt(_M_ARENA_MAX, ARENAS) and mallopt(_M_MMAP_THRESHOLD, MAPPED))
    except (AttributeError, OSError, TypeError):
        return False


def give_back() -> bool:
    """Whether freed memory went back to the system; only glibc can."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except (AttributeError, OSError, TypeError):
        return False
