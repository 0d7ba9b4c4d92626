"""The next import of a model takes the plan that won here, and no other one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.host import host_profile
from nnjit_studio.model import ImportOptions
from nnjit_studio.records import TuningRecord
from nnjit_studio.workbench.stored_best import Here
from nnjit_studio.workbench.stored_plan import digest_of, plan_key, stored_ways

SETTINGS = "merge_products=off,winograd:64x56x56x64=2x2"
OPTIONS = ImportOptions()


def test_the_newest_winner_of_this_very_model_and_place(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(b"a model")
    digest = digest_of(model, OPTIONS)
    assert digest == digest_of(model, replace(OPTIONS, ways={"merge_products": "off"}))
    device = replace(host_profile("embedded"), threads=2)
    key = plan_key(digest, device, "9")
    here = Here("9", "embedded", 2, None)
    with KernelDatabase.open(tmp_path / "k.db") as database:
        assert stored_ways(database, model, OPTIONS, here) == {}
        for settings, state in (
            ("merge_products=off", "won"),
            (SETTINGS, "won"),
            ("x=y", "slower"),
        ):
            database.commit_record(
                TuningRecord(
                    key,
                    f"plan:m#{digest}",
                    settings,
                    state,
                    1.0,
                    1.0,
                    (1.0,),
                    "",
                    b"",
                    (),
                    1,
                    0.0,
                    "fake/1",
                    "",
                    0.005,
                    "2026-11-22T00:00:00Z",
                )
            )
        assert stored_ways(database, model, OPTIONS, here) == {
            "merge_products": "off",
            "winograd:64x56x56x64": "2x2",
        }
        for other in (
            replace(here, threads=1),
            replace(here, target="chromium"),
            replace(here, compiler_version="0"),
        ):
            assert stored_ways(database, model, OPTIONS, other) == {}
        assert stored_ways(database, model, replace(OPTIONS, half_weights=True), here) == {}
        model.write_bytes(b"another model")
        assert stored_ways(database, model, OPTIONS, here) == {}
