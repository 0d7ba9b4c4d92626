"""What settings are worth at several sizes, in the database."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nnjit_studio.database import KernelDatabase
from nnjit_studio.records import KernelKey
from nnjit_studio.records.size_tuning import AtSize, SizeTuning

KEY = KernelKey("matmul", "?x64x64", "f32", "row-major", "f", "", "cpu", "t", "simd128", "1")
ROW = AtSize(16, "matmul:16x64x64:f32#a", 0.25, 1.5, {"x0=8": (1.2, 1.1, 1.3)})
TUNING = SizeTuning(
    KEY, "matmul:?x64x64:f32#f", "x0=4", (ROW, replace(ROW, size=64)), "2026-11-29", "x0=8"
)


def test_a_later_session_reads_it(tmp_path: Path) -> None:
    with KernelDatabase.open(tmp_path / "k.db") as database:
        database.commit_size_tuning(TUNING)
        later = replace(TUNING, at=(ROW,), created="2026-11-30")
        database.commit_size_tuning(later)
    with KernelDatabase.open_for_reading(tmp_path / "k.db") as database:
        found = database.size_tunings()
        assert found == [later, TUNING] and found[1].created == TUNING.created
        assert database.all_records() == [], "no static kernel is measured so"
    with KernelDatabase.open(tmp_path / "k.db") as database:
        assert database.vacuum() == 0
        assert database.size_tunings() == found
