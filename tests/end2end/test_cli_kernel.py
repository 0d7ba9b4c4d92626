"""`nnjit compile`, `nnjit space` and `nnjit bench` as a script calls them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
import wasmtime
from nnjit_command import SANDBOX, json_lines, nnjit_here
from onnx_models import mlp

from nnjit_studio.bench.peers import kernels as kernel_job
from nnjit_studio.bench.peers import passes as passes_job
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.records import MeasurePolicy
from nnjit_studio.samples.zoo import write_model

TINY = "matmul:12x16x24:f32+bias"
CANDIDATE = "x0=8,y0=4,r0=2,x1=8,y1=4,r1=16"


def test_compile_writes_a_module(tmp_path: Path) -> None:
    file = tmp_path / "k.wasm"
    options = (TINY, "--candidate", CANDIDATE, "-o", file, "--json")
    (made,) = json_lines(nnjit_here("compile", *options))
    assert made["workload"] == TINY
    assert made["nbytes"] == file.stat().st_size
    assert made["panels"] == [[1, 8]]
    assert made["ms"] >= sum(made["pass_ms"].values()) > 0
    config = wasmtime.Config()
    config.wasm_relaxed_simd = True
    wasmtime.Module.validate(wasmtime.Engine(config), file.read_bytes())


def test_passes_can_be_left_out_and_looked_at() -> None:
    options = ("compile", TINY, "--candidate", CANDIDATE, "--tier", "simd128", "--json")
    (full,) = json_lines(nnjit_here(*options, "--dump-after", "schedule"))
    (none,) = json_lines(nnjit_here(*options, "--passes", "none"))
    assert none["nbytes"] > full["nbytes"]
    assert "for $k in range" in full["dump"]
    wrong = nnjit_here(*options, "--passes", "inline")
    assert wrong.returncode == 1
    assert "no pass 'inline'" in json.loads(wrong.stdout)["error"]


def test_changes_tell_what_each_pass_did() -> None:
    options = ("compile", TINY, "--candidate", CANDIDATE, "--changes")
    (made,) = json_lines(nnjit_here(*options, "--json"))
    passes = {p["name"]: p for p in made["changes"]["passes"]}
    assert list(passes) == list(made["pass_ms"])
    assert passes["schedule"]["changes"] is None, "nothing before has its form"
    assert passes["load_store_to_variable"]["added"] > 0
    assert "+ " in passes["load_store_to_variable"]["changes"]
    assert made["changes"]["registers"] > 0 and made["changes"]["rules"]
    text = nnjit_here(*options).stdout
    assert "== load_store_to_variable" in text and "elements in registers" in text
    both = nnjit_here(*options, "--passes", "none", "--json")
    assert both.returncode == 1 and "--changes" in json.loads(both.stdout)["error"]


def test_graph_passes_of_a_model(tmp_path: Path) -> None:
    model = write_model("mobilenet-v2", tmp_path / "m.onnx", small=True)
    (made,) = json_lines(nnjit_here("compile", model, "--changes", "--json"))
    assert {"inline_functions", "fold", "decompose"} <= {p["name"] for p in made["passes"]}
    dumped = nnjit_here("compile", model, "--dump-after", "fuse_pointwise")
    assert dumped.stdout.startswith("inputs ") and "conv2d" in dumped.stdout, dumped.stderr
    small = mlp(tmp_path / "mlp.onnx")
    told = nnjit_here("compile", small, "--changes")
    assert "merge_products " in told.stdout, told.stderr
    for options in ((), ("--changes", "--dump-after", "fold"), ("--dump-after", "lower")):
        wrong = nnjit_here("compile", small, *options, "--json")
        assert wrong.returncode == 1 and json.loads(wrong.stdout)["hint"]


def test_space_lists_and_explains() -> None:
    wanted = "x0=8,y0=7,r0=4,x1=8,y1=7,r1=16"
    (made,) = json_lines(nnjit_here("space", TINY, "--explain", wanted, "--json"))
    (row,) = made["workloads"]
    assert row["packable"] is True
    assert row["naive_size"] > 1000 > len(row["candidates"]) > 5
    assert all(e["reason"] for e in row["candidates"])
    out = [v["rule"] for v in row["explain"] if not v["ok"]]
    assert "power_of_two" in out
    text = nnjit_here("space", "batch_matmul:2x8x8x8:f32").stdout
    assert "B row-major" in text


def test_webgpu_has_a_space_and_kernels_of_its_own(tmp_path: Path) -> None:
    gpu = ("--backend", "webgpu")
    (made,) = json_lines(nnjit_here("space", TINY, *gpu, "--on", "nvidia/hopper", "--json"))
    assert made["device"]["cores"] == 132
    candidates = made["workloads"][0]["candidates"]
    assert candidates and all("split=" in e["candidate"] and e["reason"] for e in candidates)
    first, file = candidates[0]["candidate"], tmp_path / "kernel.json"
    (kernel,) = json_lines(
        nnjit_here("compile", TINY, *gpu, "--candidate", first, "-o", file, "--json")
    )
    assert kernel["tier"] == "wgsl" and "emit" in kernel["pass_ms"]
    assert json.loads(file.read_text())["dispatches"][0]["code"] in kernel["dump"]
    foreign = nnjit_here("compile", TINY, *gpu, "--candidate", CANDIDATE, "--json")
    assert foreign.returncode == 1 and "Wasm" in json.loads(foreign.stdout)["error"]
    other = nnjit_here("compile", TINY, *gpu, "--tier", "simd128", "--json")
    assert other.returncode == 1 and "wgsl" in json.loads(other.stdout)["hint"]


def test_the_spellings_are_in_the_help() -> None:
    for verb in ("compile", "space"):
        assert "matmul_var:MxKxN:f32" in nnjit_here(verb, "--help").stdout


def test_missing_peers_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = nnjit_here(
        "bench", "kernels", "--node-modules", tmp_path / "empty", "--json", *SANDBOX
    )
    assert result.returncode == 1
    assert "npm ci" in json.loads(result.stdout)["hint"]


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few that the figures say nothing, and all else is there."""
    policy = RoundsPolicy(rounds=3, min_sample_ms=1.0, warmup_ms=1.0, max_warmup_ms=100.0)
    monkeypatch.setattr(kernel_job, "compare", partial(kernel_job.compare, policy=policy))


@pytest.mark.chromium
def test_ours_alone_in_chromium(tmp_path: Path, short_rounds: None) -> None:
    options = ("--peers", "none", "--shapes", f"{TINY},batch_matmul:2x5x7x9:f32", "--tune", "0.5")
    file = tmp_path / "results.md"
    (made,) = json_lines(
        nnjit_here("bench", "kernels", *options, "--markdown", file, "--json", *SANDBOX)
    )
    assert [r["workload"] for r in made["rows"]] == [TINY, "batch_matmul:2x5x7x9:f32"]
    for row in made["rows"]:
        assert set(row["ms"]) == {"ours"}
        assert 0 < row["ms"]["ours"]["min"] <= row["ms"]["ours"]["median"]
        assert row["max_rel_err"] < 1e-5
        assert row["ratio"] == {}
    assert made["browser"] and made["cpu"] and made["versions"]
    assert TINY in file.read_text()


@pytest.mark.chromium
def test_passes_in_chromium(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = MeasurePolicy(pairs=4, min_sample_ms=0.5, warmup_ms=1.0)
    monkeypatch.setattr(passes_job, "COMPILATIONS", 3)
    monkeypatch.setattr(passes_job, "POLICY", policy)
    options = (TINY, "--candidate", CANDIDATE, "--target", "chromium", "--json", *SANDBOX)
    (made,) = json_lines(nnjit_here("bench", "passes", *options))
    rows = {r["variant"]: r for r in made["rows"]}
    assert rows["none"]["nbytes"] > rows["+load_store_to_variable"]["nbytes"]
    assert rows["+load_store_to_variable"]["same_bytes"]
    assert all(r["ms"]["median"] > 0 and r["compile_ms"] > 0 for r in made["rows"])


@pytest.mark.chromium
def test_the_peers_agree(short_rounds: None) -> None:
    root = Path(__file__).parents[2] / "benchmarks" / "node_modules"
    if not all((root / name).is_dir() for name in ("onnxruntime-web", "@tensorflow", "@litertjs")):
        pytest.skip("the peers' npm packages are not installed")
    shapes = f"{TINY},matmul_var:3x4x5:f32+relu"
    options = ("--shapes", shapes, "--tune", "0.5", "--node-modules", root, "--json", *SANDBOX)
    (made,) = json_lines(nnjit_here("bench", "kernels", *options))
    for row in made["rows"]:
        assert set(row["ratio"]) == {"ort", "tfjs", "litert"}
        assert set(row["ms"]) == {"ours", "ort", "tfjs", "litert"}
        assert all(e < 1e-5 for e in row["peers_max_rel_err"].values())
    assert {"ort", "tfjs", "litert", "better_peer"} <= set(made["geomean"])
    assert made["versions"]["ort"] == "1.30.0"
