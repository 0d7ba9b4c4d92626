"""Where what threads share lies: slots of the table, and words of the control memory.

``resources/live/layout.js`` says the same to the page; a test compares them.
"""

from __future__ import annotations

SLOTS = 32
"""Slots of the table for each kernel. The first is what the rewritten function calls."""
ORIGINAL = 1
"""The second: the function as it was. What follows are kernels, each written once."""
FIRST_FREE = 2

CHOSEN = 0
"""Byte address of the chosen slot, one word for each kernel."""
RECORDING = 64
"""Nonzero while calls are recorded."""
CURSOR = 68
"""Calls since recording began."""
MAILBOX = 128
"""Address and length of the module of each slot, two words; address 0 is an empty box."""
RING = 1024
RECORD_BYTES = 32
MOST_RECORDS = 1 << 16
"""What does not fit is counted, not written."""
MODULES = RING + RECORD_BYTES * MOST_RECORDS
"""Modules of kernels, one behind the other."""
PAGES = 64
"""Of the control memory, which never grows: 4 MiB."""

MOST_KERNELS = (RECORDING - CHOSEN) // 4
TABLE = "nnjit_table"
"""Name that the rewritten module exports its table by."""
