"""Strangers' files cost a sentence whatever they hold: the program itself reads none of them."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import onnx
import pytest
import test_live_page
import tiny_runtime
from onnx import helper
from onnx_models import save
from test_loops import module_of, splat_kernel
from test_turbo import EVERYTHING
from wasm_builder import module as build

from nnjit_studio.cli.main import main
from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.apart import Part, each, parts_of
from nnjit_studio.foreign_wasm.inspection.survey import survey_file
from nnjit_studio.foreign_wasm.live.job import open_runtime, write_job
from nnjit_studio.foreign_wasm.turbo.candidates import look
from nnjit_studio.foreign_wasm.turbo.job import TurboOptions, turbo
from nnjit_studio.support.stopping import Stop, Stopped, stoppable
from nnjit_studio.ui.wasm import jobs
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.cursor import MOST_ENTRIES, Cursor
from nnjit_studio.wasm_file.module import MAGIC, Module
from nnjit_studio.wasm_file.sections import section

MANY = MOST_ENTRIES + 1
HOSTILE = {
    "promises 4294967295 entries": section(1, leb.unsigned(2**32 - 1)),
    "more than any engine takes": section(1, b"\1\x60\0\0")
    + section(3, leb.unsigned(MANY) + bytes(MANY)),
}
LOCALS = b"\1" + leb.unsigned(500_000_000) + b"\x7b\x03\x40\xfd\x60\x0b\x0b"
DEEP = b"\0" + b"\x03\x40" * 20_000 + b"\xfd\x60" + b"\x0b" * 20_001


@pytest.mark.parametrize("verb", ["inspect", "turbo", "offload"])
@pytest.mark.parametrize("sentence", HOSTILE)
def test_a_file_that_is_made_to_hurt_costs_a_sentence(
    verb: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.wasm"
    file.write_bytes(MAGIC + HOSTILE[sentence])
    with pytest.raises(SystemExit) as stopped:
        main([verb, str(file), "--json"])
    assert stopped.value.code == 1
    assert sentence in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize(("body", "why"), [(LOCALS, "declares 500000000 locals"), (DEEP, "")])
def test_a_function_that_is_made_to_hurt_costs_itself_alone(
    body: bytes, why: str, tmp_path: Path
) -> None:
    file = tmp_path / "x.wasm"
    file.write_bytes(build([body, b"\0\x0b"], {}))
    hurt, other = survey_file(file).functions
    assert why in hurt.problem and not other.problem


def test_the_program_itself_reads_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*given: Any) -> None:
        raise AssertionError("the program itself reads a file")

    kernels, dist = tmp_path / "kernels.wasm", tmp_path / "dist"
    kernels.write_bytes(module_of(splat_kernel(4, 3), 40).data)
    shutil.copytree(Path(test_live_page.__file__).with_name("runtime"), dist)
    (dist / test_live_page.NAME).write_bytes(tiny_runtime.runtime())
    relu = helper.make_node("Relu", ["x"], ["y"])
    model = save(tmp_path / "any.onnx", [relu], {"x": [2]}, {"y": [2]})
    monkeypatch.setattr(Cursor, "__init__", forbidden)
    monkeypatch.setattr(onnx, "load", forbidden)
    options = TurboOptions(kernels=True, target="node", settings=EVERYTHING)
    assert turbo(kernels, None, options, print).certificate["functions"]
    assert jobs.compile_times(survey_file(kernels), "node", False, print).tiers
    live = open_runtime(dist / test_live_page.NAME)
    assert live.made.kernels
    write_job(live, model, None, 1, tmp_path)
    assert (tmp_path / "model.onnx").stat().st_size


def test_stopping_does_not_wait_for_the_function_that_is_looked_at(tmp_path: Path) -> None:
    """One function, whose loops take many seconds."""
    file, stop = tmp_path / "x.wasm", Stop()
    file.write_bytes(module_of(splat_kernel(6, 5), 100, loops=200).data)
    threading.Timer(0.5, stop.set).start()
    with pytest.raises(Stopped), stoppable(stop):
        look(file, 15, True, lambda line: None)


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(WasmError, match="cannot be read: No such file"):
        look(tmp_path / "x.wasm", 15, True, lambda line: None)


def test_parts_are_of_one_file(tmp_path: Path) -> None:
    file = tmp_path / "x.wasm"
    file.write_bytes(MAGIC)
    parts = parts_of(file)
    file.write_bytes(module_of(splat_kernel(4, 3), 40).data)
    with pytest.raises(WasmError, match="was changed after it was read first"):
        list(each(_functions, parts))
    assert len(list(each(_functions, parts_of(file)))) == 1


def _functions(module: Module, part: Part) -> list[int]:
    return part.functions(module)
