"""How programs end: by signals, without room, and what is left behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from test_database import record
from waiting import PATIENCE_S, until

from nnjit_studio.database import KernelDatabase
from nnjit_studio.database.safety import DiskFullError
from nnjit_studio.support import temporary
from nnjit_studio.workbench import patience
from nnjit_studio.workbench.patience import PatientRecords

WAITS = """
import signal, sys, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup make test` hands it down as ignored
from nnjit_studio.support.interrupts import interrupts, stop
from nnjit_studio.support.temporary import process_folder
folder = process_folder()
(folder / "weights.bin").write_bytes(b"x")
try:
    with interrupts(stop):
        print(folder, flush=True)
        time.sleep(600)
except KeyboardInterrupt:
    print("summary", flush=True)
"""


def waiting_process(tmp_path: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_end_keeps_the_summary_and_leaves_nothing(number: int, tmp_path: Path) -> None:
    process, folder = waiting_process(tmp_path)
    assert (folder / "weights.bin").exists()
    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (0, "summary\n")
    assert not folder.exists()


def test_folders_of_dead_processes_are_removed_and_others_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporary, "_YOUNG_S", 0.0)
    dead, left = waiting_process(tmp_path)
    alive, used = waiting_process(tmp_path)
    dead.kill()
    dead.communicate(timeout=PATIENCE_S)
    assert left.exists()
    temporary.sweep(tmp_path)
    assert not left.exists()
    assert (used / "weights.bin").exists()
    alive.terminate()
    alive.communicate(timeout=PATIENCE_S)


def test_a_session_waits_for_room_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "AGAIN_S", 0.05)
    with KernelDatabase.open(tmp_path / "k.db") as db:
        pages = db._connection._run(lambda raw: raw.execute("PRAGMA page_count").fetchone()[0])
        _limit(db, pages + 1)
        large = record(wasm=os.urandom(1 << 16))
        with pytest.raises(DiskFullError):
            PatientRecords(db, lambda: True).commit_record(large)
        thread = threading.Thread(
            target=PatientRecords(db, lambda: False).commit_record, args=(large,)
        )
        with caplog.at_level(logging.WARNING):
            thread.start()
            until(lambda: "waits until there is room" in caplog.text)
        assert thread.is_alive()
        _limit(db, 10**6)
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert db.all_records() == [large]


def test_no_room_for_the_output_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nnjit_studio", "space", "--help"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "no room" in done.stderr and "Traceback" not in done.stderr


def _limit(db: KernelDatabase, pages: int) -> None:
    db._connection._run(lambda raw: raw.execute(f"PRAGMA max_page_count={pages}").fetchone())
