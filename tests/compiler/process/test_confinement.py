"""What the compile process is kept from, tried in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nnjit_studio.compiler.process.client import CompileProcess

TRIAL = """
import socket, sys
from pathlib import Path
from nnjit_studio.compiler.process.sandbox import confine
inside, outside = map(Path, sys.argv[1:])
print(*confine((inside,)))
def attempt(name, act):
    try:
        act()
        print(name, "done")
    except OSError as e:
        print(name, type(e).__name__)
def overwrite():
    with outside.open("r+b") as file:
        file.write(b"!")
attempt("inside", lambda: (inside / "new").write_text("x"))
attempt("new", lambda: outside.with_name("other").write_text("x"))
attempt("overwrite", overwrite)
attempt("remove", outside.unlink)
attempt("read", outside.read_bytes)
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    attempt(family.name, lambda: socket.socket(family, socket.SOCK_DGRAM))
"""

linux = pytest.mark.skipif(sys.platform != "linux", reason="Landlock and seccomp are Linux's")


@linux
def test_writes_outside_and_sockets_are_refused(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside" / "precious"
    for folder in (inside, outside.parent):
        folder.mkdir()
    outside.write_text("kept")
    command = [sys.executable, "-c", TRIAL, str(inside), str(outside)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    held, *lines = done.stdout.splitlines()
    seen = dict(line.split() for line in lines)
    assert (seen["inside"], seen["read"]) == ("done", "done")
    files = {seen[name] for name in ("new", "overwrite", "remove")}
    network = {seen[f"AF_{name}"] for name in ("INET", "INET6", "UNIX")}
    # A kernel or a system without them is told of, and only then something passes.
    assert files == {"PermissionError"} if "files" in held else "done" in files
    assert network == {"PermissionError"} if "network" in held else network == {"done"}
    if "files" in held:
        assert outside.read_text() == "kept"


@linux
def test_the_compile_process_tells_what_holds() -> None:
    process = CompileProcess()
    try:
        held = process.confinement()
        status = Path(f"/proc/{process._child.process.pid}/status").read_text()  # type: ignore[union-attr]
    finally:
        process.close()
    assert ("network" in held) == ("Seccomp:\t2" in status)
    assert set(held) <= {"files", "network"}
