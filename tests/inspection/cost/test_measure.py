"""Real engines on a module with one planted heavy function; our own kernels show none."""

import os
from pathlib import Path

import pytest
from replay_groups import GROUPS
from wasm_builder import ifs, nops
from wasm_builder import module as build

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.errors import PageError, WasmError
from nnjit_studio.foreign_wasm.inspection.cost.engines import Engine, Job
from nnjit_studio.foreign_wasm.inspection.cost.in_browser import BrowserEngine
from nnjit_studio.foreign_wasm.inspection.cost.measure import isolated, traced
from nnjit_studio.foreign_wasm.inspection.cost.shells import Shell, find_shell
from nnjit_studio.foreign_wasm.inspection.cost.verdict import blamed, slowest
from nnjit_studio.foreign_wasm.inspection.survey import Survey, survey_file

HEAVY = 1
pytestmark = pytest.mark.usefixtures("read_here")
NO_SANDBOX = hasattr(os, "geteuid") and os.geteuid() == 0


def node() -> Engine:
    found = find_shell("node")
    assert found is not None
    return found


def surveyed(data: bytes, folder: Path) -> Survey:
    path = folder / f"{hash(data)}.wasm"
    path.write_bytes(data)
    return survey_file(path)


@pytest.fixture(scope="module")
def planted(read_here: None, tmp_path_factory: pytest.TempPathFactory) -> Survey:
    data = build([ifs(3, 5), ifs(4000, 5), ifs(5, 5), nops(4)], {HEAVY: "heavy"})
    return surveyed(data, tmp_path_factory.mktemp("planted"))


def test_v8_tells_every_function_of_both_tiers(planted: Survey) -> None:
    said: list[str] = []
    cost = traced(node(), planted, said.append)
    assert [t.tier for t in cost.tiers] == ["liftoff", "turbofan"]
    for tier in cost.tiers:
        assert set(tier.functions) == {f.index for f in planted.functions}
        assert all(c.code_bytes and c.memory_bytes for c in tier.functions.values())
        assert tier.peak_rss_bytes is not None
    assert slowest(cost, 1) == [HEAVY]
    assert {"ms", "bytes"} <= cost.of(HEAVY)["turbofan"].keys()
    assert said


def test_isolation_finds_the_same_function(planted: Survey) -> None:
    cost = isolated(
        node(), planted, [f.index for f in planted.functions], lambda line: None, rounds=2
    )
    assert slowest(cost, 1) == [HEAVY]
    assert all(tier.whole_ms for tier in cost.tiers)
    assert len(cost.tiers[0].functions[HEAVY].samples_ms) == 2, "the first round only warms up"


@pytest.mark.chromium
def test_a_browser_compiles_with_the_same_flags(planted: Survey) -> None:
    engine = BrowserEngine(browsers.find("chromium"), NO_SANDBOX)
    cost = traced(engine, planted, lambda line: None)
    assert slowest(cost, 1) == [HEAVY]
    assert set(cost.tiers[1].functions) == {f.index for f in planted.functions}


def test_a_time_of_whole_milliseconds_is_a_time(planted: Survey, tmp_path: Path) -> None:
    told = tmp_path / "node-told"
    told.write_text("#!/bin/sh\necho '@row [22]'\n")
    told.chmod(0o755)
    cost = traced(Shell("node-told", "v8", told), planted, lambda line: None)
    assert [tier.whole_ms for tier in cost.tiers] == [22.0, 22.0]


def test_a_function_that_the_engine_refuses_is_told(tmp_path: Path) -> None:
    broken = surveyed(build([nops(2), b"\0\x6a\x0b"], {}), tmp_path)  # i32.add of nothing
    cost = isolated(node(), broken, [0, 1], lambda line: None, rounds=1, whole=False)
    assert list(cost.failed) == [1]
    assert "CompileError" in cost.failed[1]
    with pytest.raises(WasmError, match="does not compile the module"):
        traced(node(), broken, lambda line: None)


def test_an_engine_that_dies_is_an_error(planted: Survey, tmp_path: Path) -> None:
    dying = tmp_path / "node-dying"
    dying.write_text("#!/bin/sh\nexit 3\n")
    dying.chmod(0o755)
    engine = Shell("node-dying", "v8", dying)
    with pytest.raises(PageError, match="ended with code 3"):
        list(engine.compile(Job("turbofan", [planted.path])))


def test_closing_ends_the_engine(planted: Survey, tmp_path: Path) -> None:
    endless = tmp_path / "node-endless"
    endless.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\necho '@row [1.0]'\nsleep 600\n")
    endless.chmod(0o755)
    running = Shell("node-endless", "v8", endless).compile(Job("turbofan", [Path("m")], 2))
    assert next(running) == [1.0]
    running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_function_of_our_kernels_is_to_blame(tmp_path: Path) -> None:
    kernels = [
        data
        for group in ("wasm_matmul", "wasm_attention", "wasm_softmax")
        for name, data in GROUPS[group]()
        if name.endswith("| default | relaxed-simd")
    ]
    for data in kernels[::4]:
        cost = traced(node(), surveyed(data, tmp_path), lambda line: None)
        assert [blamed(cost, tier) for tier in cost.tiers] == [[], []]
    assert len(kernels) > 8


def test_times_are_not_those_of_another_file(tmp_path: Path) -> None:
    survey = surveyed(build([ifs(3, 5)], {}), tmp_path)
    survey.path.write_bytes(build([ifs(5, 5), nops(4)], {}))
    for measure in (
        lambda: traced(node(), survey, lambda line: None),
        lambda: isolated(node(), survey, [0], lambda line: None, rounds=1),
    ):
        with pytest.raises(WasmError, match="was changed"):
            measure()
