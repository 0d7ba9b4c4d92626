"""A forked process differs from a fresh one in its start alone."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path

import loaded
import pytest
from nnjit_command import NNJIT
from waiting import until

from nnjit_studio.compiler.process.client import CompileProcess

pytestmark = pytest.mark.skipif(not loaded.CAN_FORK, reason="every process is fresh here")


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["space", "matmul:8x8x8:f32", "--nonsense"],
        ["compile", "nowhere.onnx", "--json"],
    ],
)
def test_a_command_ends_and_speaks_like_a_fresh_one(words: list[str]) -> None:
    fresh = subprocess.run([*NNJIT, *words], capture_output=True, text=True, timeout=300)
    forked = loaded.command(words, 300)
    assert (forked.returncode, forked.stdout, forked.stderr) == (
        fresh.returncode, fresh.stdout, fresh.stderr
    )  # fmt: skip


def test_threads_and_what_is_asked_for_the_end_come_before_it() -> None:
    code = """
        import atexit, sys, threading, time
        import loaded
        atexit.register(print, "the end")
        threading.Thread(target=lambda: (time.sleep(0.2), print("a thread"))).start()
        loaded._done(lambda: sys.exit(3))
    """
    script = "\n".join(line.strip() for line in code.splitlines())
    folder = str(Path(loaded.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": folder},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (3, "a thread\nthe end\n", "")


def test_folder_and_variables_are_those_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NNJIT_DATABASE", "here.db")
    done = loaded.command(["db", "export", "records.json"], 300)
    assert done.returncode == 1
    assert str(tmp_path / "here.db") in done.stderr


def test_a_late_command_is_ended() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        loaded.command(["space", "matmul:8x8x8:f32"], 0.0)


def compile_process(tmp_path: Path) -> tuple[loaded.Forked, object]:
    ours, theirs = multiprocessing.Pipe()
    with theirs:
        return loaded.compile_process(theirs, str(tmp_path / "log"), 1 << 40, False), ours


def test_a_signal_is_told_and_so_is_a_kill(tmp_path: Path) -> None:
    process, _pipe = compile_process(tmp_path)
    assert process.is_alive()
    os.kill(process.pid, signal.SIGSEGV)
    process.join()
    assert (process.is_alive(), process.exitcode) == (False, -signal.SIGSEGV)
    process, _pipe = compile_process(tmp_path)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.kill()  # harmless


def test_a_kill_that_comes_too_late_loses_no_exit_code(tmp_path: Path) -> None:
    process, _pipe = compile_process(tmp_path)
    os.kill(process.pid, signal.SIGSEGV)
    until(lambda: not Path(f"/proc/{process.pid}").exists())
    process.kill()
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGSEGV


def test_a_process_that_nobody_holds_ends(tmp_path: Path) -> None:
    process, _pipe = compile_process(tmp_path)
    pid = process.pid
    del process
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_the_compile_processes_of_tests_are_forked() -> None:
    process = CompileProcess()
    process.start()
    assert isinstance(process._child.process, loaded.Forked)
    process.close()
    assert process._child.process.exitcode == -signal.SIGKILL


def test_the_workers_of_a_run_share_what_has_loaded() -> None:
    """The variable that they are given is all that it takes."""
    code = "import loaded; print(loaded.served(), loaded.command(['--version'], 300).returncode)"
    folder = str(Path(loaded.__file__).parent)
    given = {**os.environ, loaded.ADDRESS: loaded.served()}
    worker = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.append({folder!r}); {code}"],
        env=given, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert worker.stdout == f"{loaded.served()} 0\n"
    if "PYTEST_XDIST_WORKER" in os.environ:
        assert loaded.served() == os.environ[loaded.ADDRESS]
