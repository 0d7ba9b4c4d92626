"""Blocks that were freed between others go back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, threading
from nnjit_studio.support.freed_memory import give_back

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

def work(kept):
    blocks = [b"x" * (100_000 + i % 2) for i in range(2000)]
    kept.append(blocks[-1])

kept = []
thread = threading.Thread(target=work, args=(kept,))
thread.start()
thread.join()
before = resident()
if not give_back():
    print("none")
else:
    print(before - resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")
def test_freed_blocks_below_one_in_use_are_given_back() -> None:
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    if said.stdout.strip() == "none":
        pytest.skip("not glibc")
    assert int(said.stdout) > 50


ARENAS = """
import ctypes, os, tempfile, threading
from nnjit_studio.support.freed_memory import few_arenas

fine = few_arenas()
barrier = threading.Barrier(9)

def work():
    kept = [b"x" * 5000 for _ in range(100)]
    barrier.wait()
    barrier.wait()

for _ in range(8):
    threading.Thread(target=work).start()
barrier.wait()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as told:
    stream = ctypes.c_void_p(libc.fopen(told.name.encode(), b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    print(told.read().count(b"<heap nr=") if fine else "none")
barrier.wait()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks glibc")
def test_threads_share_two_arenas() -> None:
    said = subprocess.run(
        [sys.executable, "-c", ARENAS], capture_output=True, text=True, check=True
    )
    if said.stdout.strip() == "none":
        pytest.skip("not glibc")
    assert int(said.stdout) <= 2
