"""``nnjit offload --out``: what is written, and what is never overwritten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import wasm_builder as build

from nnjit_studio.cli.main import main

PLANTED = Path(__file__).parent / "planted" / "planted-o3-simd.wasm"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    with pytest.raises(SystemExit):
        main(["offload", *arguments, "--json"])
    told: dict[str, object] = json.loads(capsys.readouterr().out)
    return told


def test_the_original_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.wasm"
    path.write_bytes(before := build.module([build.nops(5)], {}))
    told = answer(capsys, str(path), "--out", str(path))
    assert "the original itself" in str(told["error"])
    assert path.read_bytes() == before


def test_a_plan_does_not_take_the_module_s_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, str(PLANTED), "--out", str(tmp_path / "new.json"))
    assert "is no name of a module" in str(told["error"])
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_where_no_loop_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.wasm"
    path.write_bytes(build.module([build.ifs(2, 2)], {}))
    told = answer(capsys, str(path), "--out", str(tmp_path / "new.wasm"))
    assert "so nothing was written" in str(told["error"])
    assert [f.name for f in tmp_path.iterdir()] == ["m.wasm"]


def test_a_module_with_nests_is_written_with_its_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = answer(capsys, str(PLANTED), "--out", str(tmp_path / "new.wasm"))
    assert told["out"] == str(tmp_path / "new.wasm")
    assert (tmp_path / "new.wasm").stat().st_size > PLANTED.stat().st_size
    assert json.loads((tmp_path / "new.json").read_text())
