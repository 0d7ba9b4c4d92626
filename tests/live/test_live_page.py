"""A session in a real browser: a small runtime with a thread, tuned while it answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import helper
from onnx_models import save
from tiny_runtime import runtime

from nnjit_studio.cli.main import cli
from nnjit_studio.engine.browsers.browsers import is_root
from nnjit_studio.errors import UserError, WasmError
from nnjit_studio.foreign_wasm.live.job import open_runtime

pytestmark = pytest.mark.usefixtures("read_here")
NAME = "ort-wasm-simd-threaded.wasm"
M, K, N = 64, 48, 64


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """The folder of a runtime."""
    folder = tmp_path / "dist"
    shutil.copytree(Path(__file__).with_name("runtime"), folder)
    (folder / NAME).write_bytes(runtime())
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Any model with the runtime's input."""
    relu = helper.make_node("Relu", ["x"], ["y"])
    return save(tmp_path / "any.onnx", [relu], {"x": [M, K]}, {"y": [M, K]})


@pytest.mark.chromium
@pytest.mark.parametrize("fma", [False, True])
def test_a_runtime_is_tuned_while_it_answers(
    dist: Path, model: Path, tmp_path: Path, fma: bool
) -> None:
    database = tmp_path / "kernels.db"
    given = [
        "live", str(dist / NAME), str(model), "--json", "--seconds", "2", "--race", "3",
        "--swaps", "300", "--database", str(database), *(["--no-sandbox"] if is_root() else []),
        *(["--fma"] if fma else []),
    ]  # fmt: skip
    run = CliRunner().invoke(cli, given, catch_exceptions=False)
    events = [json.loads(line) for line in run.stdout.splitlines()]
    by_name = {event["event"]: event for event in events}
    started, summary, raced, swaps = (
        by_name[name] for name in ("started", "summary", "raced", "swaps")
    )
    # Both threads were recorded, so both called through the table.
    flops = summary["workloads"][0]["gflops"]["after"] * summary["model_ms"]["after"] * 1e6
    assert flops == pytest.approx(2 * 2 * M * K * N)
    assert f":{M}x{K}x{N}:" in started["workloads"][0]
    assert len(by_name["space"]["candidates"]) > 10
    assert not [e for e in events if e["event"] == "measured" and e["state"] == "wrong"]
    assert len(raced["rows"]) > 2
    assert (swaps["swaps"], swaps["wrong"], swaps["kernels"]) == (300, 0, 3)
    assert 0 < swaps["worst"] < 1e-4 if fma else swaps["worst"] == 0


def test_a_module_without_kernels_is_refused(dist: Path) -> None:
    (dist / NAME).write_bytes(runtime(keeps=False, in_table=True))
    with pytest.raises(WasmError, match="no kernel that can be exchanged"):
        open_runtime(dist / NAME)
    (dist / NAME).write_bytes(b"junk")
    with pytest.raises(WasmError):
        open_runtime(dist / NAME)


def test_the_library_is_looked_for(dist: Path) -> None:
    (dist / "ort.wasm.min.mjs").unlink()
    with pytest.raises(UserError, match=r"no ort\.wasm\.min\.mjs"):
        open_runtime(dist / NAME)
    (dist / NAME).rename(dist / "ort.odd.wasm")
    with pytest.raises(UserError, match="library is not known"):
        open_runtime(dist / "ort.odd.wasm")
