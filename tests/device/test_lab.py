"""Lab modes: kept apart from everything that a page may get."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from nnjit_studio.engine.browsers.sandbox import Sandbox
from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.lab import LABS
from nnjit_studio.workbench import OpenModel, Workbench
from nnjit_studio.workbench.jobs import export
from nnjit_studio.workbench.stored_best import stored_best

FLAGS = f"--no-sandbox {LABS['revectorize']}"


def test_a_lab_session_has_a_target_and_a_badge_of_its_own(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "k.db", "embedded", FLAGS, Sandbox("--no-sandbox"))
    try:
        assert bench.page.target == "embedded+revectorize"
        assert [text for text, _ in bench.page.badges()] == ["no sandbox", "lab: revectorize"]
    finally:
        bench.close()
    plain = Workbench(tmp_path / "k.db", "embedded", "--no-sandbox")
    try:
        assert plain.page.target == "embedded" and plain.page.badges() == []
    finally:
        plain.close()


def test_a_browser_started_with_the_flag_is_a_lab_too(tmp_path: Path) -> None:
    bench = Workbench(tmp_path / "k.db", "chromium")
    try:
        bench.page.launched_with(FLAGS)
        bench.page.launched_with(FLAGS)
        assert bench.page.target == "chromium+revectorize"
        assert [text for text, _ in bench.page.badges()] == ["lab: revectorize"]
    finally:
        bench.close()


def test_lab_results_do_not_enter_a_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Workbench(tmp_path / "k.db", "embedded", FLAGS)
    try:
        monkeypatch.setattr(bench.model, "opened", object.__new__(OpenModel))
        with pytest.raises(UserError, match="do not enter a bundle") as caught:
            export(bench.model, tmp_path / "b.zip")
        assert "--lab" in caught.value.hint
        assert not (tmp_path / "b.zip").exists()
    finally:
        bench.close()


@pytest.mark.parametrize("flags", ["--no-sandbox", FLAGS])
def test_a_session_knows_only_results_of_its_own_kind(tmp_path: Path, flags: str) -> None:
    bench = Workbench(tmp_path / "k.db", "embedded", flags)
    settings = {"": "x0=8,y0=6,r0=4,x1=8,y1=6,r1=64,order=nm,pack=1"}
    settings["+revectorize"] = settings[""].replace("8,y", "16,y")

    workload = Workload("matmul", (64, 64, 64), "f32")

    def record(suffix: str) -> SimpleNamespace:
        key = SimpleNamespace(
            compiler_version=bench.compiler.version,
            target=f"embedded{suffix}",
            tier="simd128",
            device_id="cpu",
            threads=1,
        )
        what = {"state": "won", "workload": workload.key, "settings": settings[suffix]}
        return SimpleNamespace(key=key, **what)

    own = "+revectorize" if flags == FLAGS else ""
    other = "" if own else "+revectorize"
    try:
        for records, expected in (([other, own], settings[own]), ([other], None)):
            known = SimpleNamespace(all_records=lambda workload, r=records: [record(s) for s in r])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(bench, "database", known)
                found = stored_best(bench.database, workload, bench.page.here(bench.page.backend))
            assert (None if found is None else str(found)) == expected
    finally:
        bench.close()
