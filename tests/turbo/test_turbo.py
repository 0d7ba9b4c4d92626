"""``nnjit turbo`` from file to files, measured in node."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from test_loops import ACC, A, P, code, get, module_of, put, splat_kernel

from nnjit_studio.cli.main import main
from nnjit_studio.engine.browsers.flags import Browser, Extras
from nnjit_studio.errors import TargetError, UserError
from nnjit_studio.foreign_wasm import apart
from nnjit_studio.foreign_wasm.turbo.gate import engines
from nnjit_studio.foreign_wasm.turbo.gate.engines import BrowserEngine, Node, engine_of
from nnjit_studio.foreign_wasm.turbo.gate.gain import gain_of
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings
from nnjit_studio.foreign_wasm.turbo.job import Turbo, TurboOptions, turbo, worth_trying
from nnjit_studio.foreign_wasm.turbo.kept import MOST_KEPT, kept_turbo, made_before, make_turbo
from nnjit_studio.foreign_wasm.turbo.licence import licence_of
from nnjit_studio.foreign_wasm.turbo.models import runtime_of
from nnjit_studio.foreign_wasm.turbo.outputs import outputs_for

pytestmark = pytest.mark.usefixtures("read_here")
# What is kept is for another test: a figure of this machine decides nothing here.
EVERYTHING = Settings(cases=6, rounds=8, call_ms=0.1, warmup_ms=5, least_gain=0.01)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with a module whose kernel needs more registers than there are."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "package.json").write_text(
        json.dumps({"name": "peer", "version": "1.2.3", "license": "MIT"})
    )
    (folder / "LICENSE").write_text("MIT")
    (folder / "dist").mkdir()
    data = module_of(splat_kernel(4, 3), 40).data + b"\x00\x05\x04note"
    (folder / "dist" / "kernels.wasm").write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def made(package: Path, read_here: None) -> Turbo:
    options = TurboOptions(fma=True, target="node", settings=EVERYTHING)
    return turbo(package / "dist" / "kernels.wasm", None, options, lambda line: None)


def test_all_files_are_written_and_the_certificate_names_them(made: Turbo) -> None:
    outputs = made.outputs
    assert outputs.plain.name == "kernels.turbo.wasm"
    assert outputs.relaxed.name == "kernels.turbo-relaxed.wasm"
    told = json.loads(outputs.certificate.read_text())
    for role, path in (("out", outputs.plain), ("out_relaxed", outputs.relaxed)):
        assert told[role]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
        assert path.read_bytes().endswith(b"\x00\x05\x04note")  # notices stay
    (row,) = told["functions"]
    assert row["kept"] and row["gain"] > 0
    assert row["executed"]["equal"] == row["executed"]["cases"] == EVERYTHING.cases
    (loop,) = row["loops"]
    assert loop["live_vectors"] > told["engine"]["vector_registers"]
    assert all(body["equal"] for body in loop["bodies"])
    assert {body["pass"] for body in loop["bodies"]} == {"schedule", "fma"}
    assert told["licence"]["licence"] == "MIT"
    assert told["licence"]["notices"] == ["LICENSE"]


def test_a_memory_of_64_bits_is_run_with_addresses_of_64_bits(tmp_path: Path) -> None:
    file = tmp_path / "wide.wasm"
    file.write_bytes(module_of(splat_kernel(4, 3, wide=True), 40, wide=True).data)
    made = turbo(file, None, TurboOptions(target="node", settings=EVERYTHING), lambda line: None)
    (row,) = made.certificate["functions"]
    assert row["kept"] and row["gain"] > 0
    assert row["executed"]["equal"] == EVERYTHING.cases and row["executed"]["ended"] > 0
    (loop,) = row["loops"]
    assert all(body["equal"] and body["cases_without_trap"] for body in loop["bodies"])


def test_nothing_is_measured_in_the_code_of_an_engines_first_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is busy enough is still in it when one body has long left it."""
    told, job = tmp_path / "told", {"functions": [], "pairs": [], "modules": []}
    node = tmp_path / "node"
    node.write_text(f'#!/bin/sh\necho "$@" > {told}\n')
    node.chmod(0o755)
    assert list(Node(str(node)).rows(job, tmp_path)) == []
    assert told.read_text().startswith("--no-liftoff ")
    started: list[Extras] = []

    def open_page(*given: object, extras: Extras) -> object:
        started.append(extras)
        raise TargetError("It is not there.")

    monkeypatch.setattr(engines, "open_page", open_page)
    with pytest.raises(TargetError):
        list(BrowserEngine(cast(Browser, None), False).rows(job, tmp_path))
    (extras,) = started
    assert extras.switches == ("--js-flags=--no-liftoff",)
    assert extras.preferences == {"javascript.options.wasm_baselinejit": False}


def test_the_loader_chooses_by_what_the_engine_can(made: Turbo) -> None:
    script = "const { relaxed, wasmUrl } = await import(process.argv[1]);"
    script += "console.log(JSON.stringify({ relaxed, wasmUrl }));"
    node = engine_of("node", no_sandbox=True)
    assert isinstance(node, Node)
    command = [node.program, "--input-type=module", "-e", script, made.outputs.loader.as_uri()]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    chosen = made.outputs.relaxed if told["relaxed"] else made.outputs.plain
    assert told["wasmUrl"].endswith(chosen.name)
    assert told["relaxed"] is True  # node of this project has relaxed SIMD
    assert len(made.outputs.loader.read_text().splitlines()) <= 10


def test_a_module_that_gains_nothing_writes_nothing(package: Path, tmp_path: Path) -> None:
    never = TurboOptions(target="node", settings=Settings(cases=2, rounds=8, least_gain=1e9))
    with pytest.raises(UserError, match="1e\\+09 times as fast"):
        turbo(package / "dist" / "kernels.wasm", tmp_path / "x.wasm", never, lambda line: None)
    assert not any(tmp_path.iterdir())


def test_a_file_that_changes_after_it_was_looked_through_is_told(tmp_path: Path) -> None:
    file, said = tmp_path / "x.wasm", list[str]()
    file.write_bytes(module_of(splat_kernel(4, 3), 40).data)
    options = TurboOptions(target="node", settings=replace(EVERYTHING, cases=2))
    work = worth_trying(file, options, said.append)
    assert [c.function.index for c in work.candidates] == [0]
    assert said[0] == "Looking through x.wasm."
    file.write_bytes(file.read_bytes() + b"\x00\x05\x04note")
    apart._module.cache_clear()
    said.clear()
    with pytest.raises(UserError, match="was changed while it was measured"):
        turbo(file, None, options, said.append, work)
    assert [line.split(", ")[0] for line in said if "best" in line] == [
        "1 of 1 functions: loop 1 of function 0"
    ] * 2
    assert said[0].startswith("Measuring functions in node") and not any("Look" in s for s in said)
    assert [f.name for f in tmp_path.iterdir()] == ["x.wasm"]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"nonsense", "not a Wasm module"),
        (b"\0asm\1\0\0\0", "no memory"),
        (b"\0asm\1\0\0\0\x05\x03\x01\x00\x01", "no vector instruction"),
    ],
)
def test_other_files_are_refused_in_a_sentence(
    data: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.wasm"
    file.write_bytes(data)
    with pytest.raises(SystemExit) as stopped:
        main(["turbo", str(file), "--target", "node", "--json"])
    assert stopped.value.code == 1
    assert sentence in json.loads(capsys.readouterr().out)["error"]
    assert [f.name for f in tmp_path.iterdir()] == ["x.wasm"]


@pytest.mark.parametrize(
    ("sums", "has_hint"), [(["f32x4.mul", "f32x4.add"], True), (["i32x4.add"], False)]
)
def test_fused_products_are_advised_only_where_there_are_some(
    sums: list[str], has_hint: bool, tmp_path: Path
) -> None:
    loop = get(P) + code("v128.load", 4, 0, 0) + put(A)
    loop += get(ACC) + (get(A) + get(A) + code(sums[0]) if has_hint else get(A))
    (tmp_path / "x.wasm").write_bytes(module_of(loop + code(sums[-1]) + put(ACC)).data)
    with pytest.raises(UserError, match="they fit in 15 registers") as refused:
        turbo(tmp_path / "x.wasm", None, TurboOptions(target="node"), lambda line: None)
    assert ("--fma" in refused.value.hint) == has_hint


def test_vectors_outside_of_loops_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.wasm").write_bytes(module_of(b"").data)
    with pytest.raises(UserError, match="no loop of one block carries vectors"):
        turbo(tmp_path / "x.wasm", None, TurboOptions(target="node"), lambda line: None)


def test_the_original_is_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "x.wasm"
    with pytest.raises(UserError, match="original itself"):
        outputs_for(file, file)
    with pytest.raises(UserError, match=r"ends in \.wasm"):
        outputs_for(file, tmp_path / "y.js")


def test_a_check_needs_the_runtime_of_the_module(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dist folder of an onnxruntime-web"):
        runtime_of(tmp_path / "ort-wasm-simd-threaded.wasm")
    assert "make sure" in licence_of(tmp_path / "x.wasm").text


def test_a_gain_has_an_interval_that_holds_its_median() -> None:
    gain = gain_of([2.0, 2.2, 1.8, 2.1, 2.0, 1.9, 2.4, 2.0], [1.0] * 8)
    assert gain.low <= gain.median <= gain.high
    assert gain.median == pytest.approx(2.0)


def test_a_faster_module_is_made_once_for_each_file_engine_and_set_of_passes(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = package / "dist" / "kernels.wasm"
    made: list[Path] = []

    def play(_: Path, out: Path, *rest: object) -> None:
        out.parent.mkdir(parents=True)
        out.write_bytes(b"faster")
        made.append(out)

    monkeypatch.setattr("nnjit_studio.foreign_wasm.turbo.kept.turbo", play)
    node = TurboOptions(target="node")
    for _ in range(2):
        assert make_turbo(file, node, print, tmp_path).read_bytes() == b"faster"
    assert made == [kept_turbo(file, node, tmp_path)]
    other = tmp_path / "other.wasm"
    other.write_bytes(file.read_bytes() + b"\0\1\0")
    places = {
        kept_turbo(each, TurboOptions(target="node", fma=fma), tmp_path).parent
        for each in (file, other)
        for fma in (False, True)
    }
    assert len(places) == 4


def test_the_cache_keeps_the_modules_that_were_used_last(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(_: Path, out: Path, *rest: object) -> None:
        out.parent.mkdir(parents=True)
        out.touch()

    monkeypatch.setattr("nnjit_studio.foreign_wasm.turbo.kept.turbo", play)
    whole = (package / "dist" / "kernels.wasm").read_bytes()
    files = [tmp_path / f"{n}.wasm" for n in range(MOST_KEPT + 1)]
    for n, file in enumerate(files):
        file.write_bytes(whole + bytes([0, 2, 0, n]))
    node, folder = TurboOptions(target="node"), tmp_path / "kept"
    for second, file in enumerate(files[:-1]):
        place = make_turbo(file, node, print, folder)
        os.utime(place.parent, (second, second))  # one after the other, by any clock
    assert made_before(files[0], node, folder)  # a use that makes nothing counts
    gone = folder / "gone"
    gone.symlink_to("removed-by-another-studio")
    make_turbo(files[-1], node, print, folder)
    gone.unlink()
    left = {place.parent for f in files if (place := kept_turbo(f, node, folder)).is_file()}
    assert left == set(folder.iterdir()) and len(left) == MOST_KEPT
    assert kept_turbo(files[1], node, folder).parent not in left
