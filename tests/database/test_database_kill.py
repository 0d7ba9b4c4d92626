"""Whatever commit_record returned is there after the process was killed."""

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from nnjit_studio.database import KernelDatabase
from nnjit_studio.errors import DatabaseError

WRITER = """
import sys
from pathlib import Path
from nnjit_studio.database import KernelDatabase, connection
from nnjit_studio.records import KernelKey, TuningRecord
import hashlib

if sys.argv[2]:
    connection.journal_mode = lambda version: sys.argv[2]
key = KernelKey(*"abcdefghij")
with KernelDatabase.open(Path(sys.argv[1])) as db:
    for n in range(100000):
        wasm = n.to_bytes(4, "little") * 3000
        record = TuningRecord(key, "w", str(n), "won", 1.0, 1.0, (1.0,) * 12,
            hashlib.sha256(wasm).hexdigest(), wasm, (), 1, 1.0, "b", "", 0.1, str(n))
        print(db.commit_record(record), n, flush=True)
"""

HALF = """
import os, signal, sqlite3, sys

db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode=truncate").fetchone()
db.execute("PRAGMA cache_size=5")  # so that pages reach the file before the commit
db.execute("BEGIN IMMEDIATE")
for n in range(500):
    db.execute("INSERT INTO kernels VALUES (?, ?)", (str(n), os.urandom(4000)))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
@pytest.mark.parametrize("mode", ["", "wal"])
def test_killed_writers_lose_nothing(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "kernels.db"
    printed: dict[int, str] = {}
    for repetition in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), mode], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(7 + 10 * repetition)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL
        # The last line may have been cut short by the kill.
        printed |= {int(i): n for i, n in (ln.split() for ln in lines if ln.endswith("\n"))}
    with KernelDatabase.open(path) as db:
        assert db.integrity() == "ok"
        rows = {line.id: line.settings for line in db.measurements()}
        assert len(printed) >= 7 + 17 + 27
        assert printed.items() <= rows.items()
    plain = sqlite3.connect(path)
    assert plain.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    plain.close()


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_who_only_reads_is_not_stopped_by_a_writer_that_was_killed(tmp_path: Path) -> None:
    path = tmp_path / "kernels.db"
    KernelDatabase.open(path).close()
    subprocess.run([sys.executable, "-c", HALF, str(path)], check=False)
    assert path.with_name("kernels.db-journal").stat().st_size > 0
    with pytest.raises(DatabaseError, match="in the middle of a record"):
        KernelDatabase.open(path, read_only=True)
    with KernelDatabase.open_for_reading(path) as db:
        assert db.integrity() == "ok"
        assert db._connection.read(lambda raw: raw["kernels"].count) == 0
