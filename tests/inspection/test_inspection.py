"""Planted cliffs, all found; two builds compared; the forms of the answer."""

import csv
import json
from pathlib import Path

import pytest
import wasm_builder as build
from click.testing import CliRunner

from nnjit_studio.cli.main import cli
from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.inspection import report
from nnjit_studio.foreign_wasm.inspection.comparison import compare
from nnjit_studio.foreign_wasm.inspection.rules import warnings
from nnjit_studio.foreign_wasm.inspection.survey import Survey, survey_file

CLIFFS = {
    "a body that V8 refuses": (build.nops(7_654_400), {"body-refused"}),
    "a body one byte too large": (build.nops(7_654_322 - 2), {"body-refused"}),
    "the largest body that V8 takes": (build.nops(7_654_321 - 2), {"large-body"}),
    "a large body": (build.nops(250_000), {"large-body"}),
    "just large": (build.nops(100_001), {"large-body"}),
    "locals that V8 refuses": (build.locals_(50_001), {"locals-refused"}),
    "a hundred thousand locals": (build.locals_(100_000), {"locals-refused"}),
    "more locals than anyone counts": (build.locals_(4_000_000_000), {"not-understood"}),
    "as many locals as V8 takes": (build.locals_(50_000), {"many-locals"}),
    "many locals": (build.locals_(1_500), {"many-locals"}),
    "a jump table that V8 refuses": (build.jumps(70_000), {"jumps-refused"}),
    "a giant jump table": (build.jumps(60_000), {"long-jump-table"}),
    "a long jump table": (build.jumps(1_025), {"long-jump-table"}),
    "blocks by values": (build.ifs(6_000, 4), {"blocks-by-values"}),
    "few blocks with many values": (build.ifs(2_800, 30), {"blocks-by-values", "large-body"}),
    "a spilling product": (build.products(8, 8), {"vector-spills"}),
    "sixteen sums": (build.products(16, 1), {"vector-spills"}),
    "vectors on the stack": (build.stacked(20), {"vector-spills"}),
    "an opcode of tomorrow": (b"\x00\xff\x0b", {"not-understood"}),
    "a body that is cut off": (b"\x00\x41", {"not-understood"}),
}
HARMLESS = {
    "a hundred thousand bytes": build.nops(99_990),
    "a thousand locals": build.locals_(1_000),
    "a jump table": build.jumps(1_024),
    "ifs": build.ifs(1_000, 4),
    "a product that fits": build.products(4, 4),
    "fifteen sums": build.products(13, 1),
    "vectors outside of any loop": build.stacked(20, loop=False),
}


def survey(
    tmp_path: Path, *bodies: bytes, name: str = "m.wasm", names: dict | None = None
) -> Survey:
    path = tmp_path / name
    path.write_bytes(build.module(bodies, names or {}))
    return survey_file(path)


def test_planted_cliffs_are_found(tmp_path: Path) -> None:
    bodies = [body for body, _ in CLIFFS.values()]
    found: dict[int, set[str]] = {}
    for warning in warnings(survey(tmp_path, *bodies).functions):
        found.setdefault(warning.function, set()).add(warning.rule)
        assert warning.text.endswith(".") and "  " not in warning.text
    assert len(CLIFFS) == 20
    expected = {name: rules for name, (_, rules) in CLIFFS.items()}
    assert {name: found.get(n, set()) for n, name in enumerate(CLIFFS)} == expected


def test_harmless_functions_have_no_warning(tmp_path: Path) -> None:
    assert list(warnings(survey(tmp_path, *HARMLESS.values()).functions)) == []


def test_facts(tmp_path: Path) -> None:
    product, caller = build.products(8, 8), b"\x00\x41\x00\x41\x00\x10\x00\x0b"
    found = survey(tmp_path, product, caller, names={0: "gemm"})
    first, second = found.functions
    assert (first.loops, first.locals, first.live_vectors, first.spills) == (1, 2 + 8 + 8, 17, 2)
    assert found.name(0) == "gemm"
    assert found.callers == {0: (1,)}
    assert second.callees == (0,)
    assert report.sections(found).keys() == {"type", "function", "memory", "code", "custom 'name'"}


def test_comparison(tmp_path: Path) -> None:
    same, named = build.ifs(10, 4), build.products(2, 2)
    before = survey(tmp_path, same, named, build.jumps(5), name="a.wasm", names={1: "kernel"})
    after = survey(
        tmp_path, build.products(3, 3), same, build.locals_(3), name="b.wasm", names={0: "kernel"}
    )
    found = compare(before, after)
    assert found.same == 1
    (changed,) = found.changed
    assert (changed.before.index, changed.after.index, changed.by) == (1, 0, "name")
    assert [f.index for f in found.added] == [2]
    assert [f.index for f in found.removed] == [2]
    assert "1 functions are the same, 1 changed" in report.as_text(after, found)


def answer(*arguments: str) -> str:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_verb(tmp_path: Path) -> None:
    path, table = tmp_path / "m.wasm", tmp_path / "m.csv"
    path.write_bytes(build.module([build.products(8, 8), build.nops(5)], {0: "gemm"}))
    document = json.loads(answer("inspect", str(path), "--json", "--csv", str(table)))
    assert [w["rule"] for w in document["warnings"]] == ["vector-spills"]
    row = document["functions"][0]
    wanted = {"index", "bytes", "blocks", "locals", "live_vectors", "tiers", "callers", "spills"}
    assert row.keys() >= wanted and row["tiers"] == {}
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["name"], r["live_vectors"]) for r in rows] == [("gemm", "17"), ("", "")]
    assert "2 functions are the same" in answer("inspect", str(path), "--compare", str(path))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a Wasm module"),
        (b"\0asm\x0d\0\1\0", "component"),
        (b"\0asm\1\0\0\0\x0a\xff\xff\xff\xff\x0f", "ends too early"),
        (b"\0asm\1\0\0\0\x03\x06\xff\xff\xff\xff\x0f\0", "promises 4294967295 entries"),
    ],
)
def test_what_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "m.wasm"
    path.write_bytes(data)
    with pytest.raises(WasmError, match=message):
        survey_file(path)
    with pytest.raises(WasmError, match="cannot be read"):
        survey_file(tmp_path / "none.wasm")


def test_a_large_file_is_read_in_parts(tmp_path: Path) -> None:
    path, told = tmp_path / "m.wasm", list[str]()
    path.write_bytes(build.module([build.nops(n << 10) for n in range(1, 62)], {}))
    found = survey_file(path, told.append)
    assert [f.index for f in found.functions] == list(range(61))
    assert told == ["Reading m.wasm: 1 of 2 parts."]


def test_a_reader_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own processor time: a busy machine is no fault of the file."""
    path = tmp_path / "m.wasm"
    path.write_bytes(build.module([build.nops(5)] * 20_000, {}))
    monkeypatch.setattr("nnjit_studio.foreign_wasm.apart.seconds_for", lambda nbytes: 0.001)
    monkeypatch.setattr("nnjit_studio.support.readers.PATIENCE", 1e5)
    with pytest.raises(WasmError, match=r"took more than 0\.001 s of processor time"):
        survey_file(path)
