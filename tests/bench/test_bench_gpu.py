"""The GPU's benchmarks, without a browser: what they write, compute and print."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import onnx
import onnxruntime
import pytest

from nnjit_studio.bench.gpu import (
    dispatches as gpu_dispatches,
)
from nnjit_studio.bench.gpu import gemv4, gemv4_chain
from nnjit_studio.bench.gpu import (
    kernels as gpu_kernels,
)
from nnjit_studio.bench.gpu import (
    tables as gpu_tables,
)
from nnjit_studio.bench.gpu.page import BenchPage, flags_of
from nnjit_studio.cli.bench.gpu import load_native
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.compiler.wgsl.templates.subgroup_matrix import FEATURES
from nnjit_studio.device.gpu_constants import typical
from nnjit_studio.engine.browsers.browsers import Browser, RunningBrowser
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import UserError
from nnjit_studio.records import GPU_TIERS, DeviceProfile
from nnjit_studio.records.gpu_profile import GpuProfile

ADAPTER = {
    "vendor": "acme",
    "architecture": "",
    "device": "",
    "description": "Acme 3000",
    "driver": "1.2",
    "is_fallback": False,
    "timestamp_quantum_ns": 32,
}
CONDITIONS: dict[str, Any] = {
    "date": "2026-11-21T00:00:00+00:00",
    "browser": "B",
    "flags": "--flag",
    "adapter": ADAPTER,
    "cpu": "C",
    "cores": 2,
    "versions": {"ort": "1.30.0"},
}


def test_shapes_are_plain_products() -> None:
    assert [name for name, _ in gpu_kernels.parse_shapes(None)] == ["K0", "K1", "K2", "K3", "4096"]
    with pytest.raises(UserError, match="plain products only"):
        gpu_kernels.parse_shapes("matmul:4x4x4:f32+bias")
    with pytest.raises(UserError, match="plain products only"):
        gpu_kernels.parse_shapes("matmul_dot:4x4x4:f32")


def test_the_peers_models_compute_the_reference(tmp_path: Path) -> None:
    (shape,) = gpu_kernels.prepare(gpu_kernels.parse_shapes("batch_matmul:2x3x5x4:f32"), tmp_path)
    assert shape.flops == 2 * 2 * 3 * 5 * 4
    inputs = {
        name: np.fromfile(tmp_path / f"0/{name}.bin", np.float32).reshape(dims)
        for name, dims in shape.inputs
    }
    one = onnxruntime.InferenceSession(tmp_path / "0/one.onnx").run(None, inputs)
    feeds = {f"in0_{i}": inputs["in0"] for i in range(4)} | {"in1": inputs["in1"]}
    many = onnxruntime.InferenceSession(tmp_path / "0/many.onnx").run(None, feeds)
    assert (len(one), len(many)) == (1, shape.depth)
    for got in (*one, *many):
        np.testing.assert_allclose(got, shape.reference, rtol=1e-5, atol=1e-6)


def test_large_outputs_share_a_submit_in_fewer_numbers(tmp_path: Path) -> None:
    def depth(*dims: int) -> int:
        return gpu_kernels.Prepared("", "0", None, (), dims, np.zeros(0), 0).depth  # type: ignore[arg-type]

    assert (depth(64, 64), depth(2048, 4096), depth(8192, 8192)) == (16, 8, 4)


def test_candidates_are_documents_of_every_tier() -> None:
    gpu = typical("nvidia/hopper")
    device = DeviceProfile("id", "chromium+webgpu", tiers=GPU_TIERS, gpu=gpu)
    ((_, spec),) = gpu_kernels.parse_shapes("matmul:64x64x64:f32")
    with closing(CompileProcess()) as process:
        found = gpu_kernels.candidates(Compiler(process), 3, spec, device)
    assert 3 <= len(found) <= 6
    assert {f["settings"].split()[-1] for f in found} <= set(GPU_TIERS)
    assert all(d["entry"] == "main" for f in found for d in f["document"]["dispatches"])
    assert len({json.dumps(f["document"]) for f in found}) == len(found)


def timed(ms: float) -> dict[str, Any]:
    one = {"calls": 16, "passes": 1, "dispatches": 1, "submits": 1}
    one |= {"gpu_ms": [ms, ms, ms], "wall_ms": [2 * ms] * 3}
    return {"submit": one, "pass": {**one, "passes": 0.25}}


@pytest.fixture
def kernels_result(tmp_path: Path) -> dict[str, Any]:
    (shape,) = gpu_kernels.prepare(gpu_kernels.parse_shapes("matmul:4x4x4:f32"), tmp_path)
    right = shape.reference.astype(np.float32).reshape(-1)
    message = {
        "settings": "x0=4 wgsl",
        "best_at": 2,
        "seconds": 1.5,
        "tried": [{"error": "", "pipeline_ms": 5.0}, {"error": "bad", "pipeline_ms": 7.0}],
        "failed": {"tfjs": "no adapter"},
        "timed": {"ours": timed(0.5), "ort": timed(1.0)},
        "readback_ms": {"ours": [1.0], "ort": [3.0]},
        "own_ms": {"ours": [0.5, 0.75, 0.625]},
        "chain_ns": [2.0, 2.0],
    }
    row = gpu_kernels._row(shape, message, {"ours": right, "ort": right + 1}, 0.25)
    native = {"library": "torch", "device": "Acme 3000", "how": "graph"}
    return {**CONDITIONS, "dtype": "float32", "native": native, "rows": [row], "geomean": {}}


def test_a_row_of_kernels(kernels_result: dict[str, Any]) -> None:
    (row,) = kernels_result["rows"]
    assert row["submit"]["ratio"] == {"ort": 2.0}
    assert row["pass"]["wall_ratio"] == {"ort": 2.0}
    assert row["readback_ratio"] == {"ort": 3.0}
    assert row["native_share"] == 0.5
    assert row["tflops"] == pytest.approx(128 / 0.5 / 1e9)
    assert row["max_rel_err"] < 1e-6 < row["peers_max_rel_err"]["ort"]
    assert row["candidates"] == {
        "measured": 2,
        "wrong": 1,
        "best_at": 2,
        "seconds": 1.5,
        "pipeline_ms": 6.0,
    }


def test_the_lab_wants_matrix_units(tmp_path: Path) -> None:
    spec = WorkloadSpec.parse("matmul:64x64x64:f32")
    matrices = GpuProfile(features=FEATURES)
    device = DeviceProfile("x", "chromium+webgpu", tiers=("wgsl",), gpu=matrices)
    kernels = gpu_kernels.lab_candidates(3, spec, device)
    assert len({k["settings"] for k in kernels}) == 3
    assert all("subgroupMatrixMultiply" in k["document"]["dispatches"][0]["code"] for k in kernels)
    with pytest.raises(UserError, match="shader-f16"):
        gpu_kernels.lab_candidates(3, spec, replace(device, gpu=GpuProfile()))
    odd = WorkloadSpec.parse("matmul:10x64x64:f32")
    with pytest.raises(UserError, match="not a multiple"):
        gpu_kernels.lab_candidates(3, odd, device)
    (shape,) = gpu_kernels.prepare([("K", spec)], tmp_path, "float16")
    inputs = onnx.load(tmp_path / "0" / "one.onnx").graph.input
    assert {i.type.tensor_type.elem_type for i in inputs} == {onnx.TensorProto.FLOAT16}
    assert (tmp_path / "0" / "in0.bin").stat().st_size == 2 * 64 * 64 and shape.dtype == "float16"


def test_kernels_are_printed_with_their_conditions(kernels_result: dict[str, Any]) -> None:
    section = gpu_tables.kernels_report(kernels_result).markdown()
    assert "GPU: Acme 3000 (vendor acme, driver 1.2)" in section
    assert "steps of 32 ns" in section and "`--flag`" in section
    assert "| matmul:4x4x4:f32 | one per submit | 0.5000 (0.5000; 0.0000) | 1.0000" in section
    assert "tfjs failed on matmul:4x4x4:f32: no adapter." in section
    assert "ours 0.25; ort 0.25" in section
    assert "ours 0.6250" in section
    assert "torch on Acme 3000" in section and "50%" in section
    software = {**kernels_result, "adapter": {**ADAPTER, "is_fallback": True}}
    assert "Software adapter, no GPU: Acme 3000" in gpu_tables.kernels_report(software).text()


def test_a_chain_of_additions_adds_one_each_time(tmp_path: Path) -> None:
    gpu_dispatches.write_chain(tmp_path / "chain.onnx", 5)
    session = onnxruntime.InferenceSession(tmp_path / "chain.onnx")
    (got,) = session.run(None, {"in0": np.arange(4, dtype=np.float32)})
    assert got.tolist() == [5, 6, 7, 8]


def test_dispatches_are_printed() -> None:
    ms = {
        "ours": {"median": 2.0, "min": 1.0, "iqr": 0.5},
        "tfjs": {"median": 5.0, "min": 4.0, "iqr": 1.0},
    }
    result = {**CONDITIONS, "count": 1000, "ms": ms, "queued_ms": ms, "ratio": {"tfjs": 2.5}}
    report = gpu_dispatches.dispatches_report(result)
    text = report.text()
    assert "1000 dependent dispatches" in text
    assert [line.split()[-1] for line in text.splitlines()[-2:]] == ["1.00", "2.50"]
    assert "| tfjs | 5.000 (4.000; 1.000) | 5.00 |" in report.markdown()


@pytest.mark.parametrize("text", ["4096", "4096x", "axb", "32x33", "0x32", "32x32x32"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(UserError, match=text):
        gemv4_chain.parse_sizes(text)


def test_chains_are_larger_than_a_cache_and_come_back() -> None:
    assert gemv4_chain.chain_of((64, 64), 5000) == ((64, 64),) * 3
    assert gemv4_chain.chain_of((64, 96), 1) == ((64, 96), (96, 64))
    assert len(gemv4_chain.chain_of((64, 96), 10**9)) == gemv4_chain.MOST_MATRICES
    for size in gemv4_chain.parse_sizes("4096x4096,4096x11008"):
        chain = gemv4_chain.chain_of(size, gemv4_chain.CHAIN_BYTES)
        assert sum(k * n // 2 for k, n in chain) >= gemv4_chain.CHAIN_BYTES


def test_both_layouts_of_a_4_bit_chain_are_one_matrix(tmp_path: Path) -> None:
    matrices = gemv4_chain.chain_of((64, 96), 1)
    chain, models = gemv4_chain.prepare(matrices, "f32", tmp_path / "0")
    assert np.std(chain.last) > 0.1
    shutil.copy(tmp_path / "0/peer.bin", tmp_path / "0/weights.bin")
    x = np.fromfile(tmp_path / "0/x.f32", np.float32).reshape(1, -1)
    exact = next(m for m in models if m["name"] == "ort-0")
    for key, wanted in (("one", chain.first), ("chain", chain.last)):
        session = onnxruntime.InferenceSession(tmp_path / exact[key])
        (got,) = session.run(None, {"x": x})
        np.testing.assert_allclose(got.reshape(-1), wanted, rtol=1e-4, atol=1e-4)


def test_rows_of_a_chain_and_their_ratio(tmp_path: Path) -> None:
    chain, _ = gemv4_chain.prepare(((64, 64), (64, 64)), "f32", tmp_path / "0")
    assert chain.nbytes == 2 * (64 * 64 // 2 + 2 * 64 * 4)
    ours, peer = timed(0.002), {"submit": timed(0.008)["submit"]}
    right = (chain.first.astype(np.float32).tobytes(), chain.last.astype(np.float32).tobytes())
    message = {
        "timed": {"ours": ours, "ort-0": peer},
        "kernels": [{"size": "64x64", "setting": "S", "tried": [1, 2]}],
        "failed": {"ort-4": "why"},
    }
    rows = gemv4.chain_rows(chain, message, {"ours": right, "ort-0": right})
    assert rows[0]["submit"]["gpu_us"]["median"] == 1.0
    assert rows[0]["submit"]["gb_s"] == pytest.approx(chain.nbytes / 2 / 1e3)
    assert rows[1]["ratio"] == 4.0
    section = gemv4.gemv4_report({**CONDITIONS, "block": 32, "rows": rows}).markdown()
    assert "4.00 (4.00)" in section
    assert "64x64 `S`, of 2 tried; ort-4 failed: why." in section


def test_settings_that_do_not_fit_are_left_out() -> None:
    found = gemv4.variants(64, 96, "f16", subgroups=True)
    bound = {tuple(f["dispatch"]["bindings"]) for f in found}
    assert bound == {("words", "scales", "x", "y")}
    assert {"subgroups" in f["requires"] for f in found} == {True, False}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gpu_ms": {"a": "b"}}', '{"gpu_ms": []}'])
def test_a_yardstick_that_is_none(text: str, tmp_path: Path) -> None:
    assert load_native(None) == {}
    path = tmp_path / "cublas.json"
    with pytest.raises(UserError, match="cublas"):
        load_native(path)
    path.write_text(text)
    with pytest.raises(UserError, match="is not what"):
        load_native(path)


def test_flags_are_those_of_the_running_program() -> None:
    gone = RunningBrowser(Browser("b", "chromium", Path("b")), "--given", pid=2**22 + 1)
    assert flags_of(gone) == "--given"


def test_flags_are_read_once_the_page_answers(tmp_path: Path) -> None:
    """A ``--target`` may be a script that becomes the browser, with flags of its own."""
    script = 'read line; exec "$0" -c "import time; time.sleep(60)" "--$1"'
    command = ["sh", "-c", script, sys.executable, "added"]  # the shell's own line has no flag
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as browser:

        class Server:
            done: ClassVar[dict[str, Any]] = {}

            def next_message(self, timeout_s: float) -> dict[str, str]:
                assert browser.stdin is not None
                browser.stdin.write("\n")
                browser.stdin.flush()
                until = time.monotonic() + timeout_s
                while flags_of(running) != "--added" and time.monotonic() < until:
                    time.sleep(0.01)
                return defaultdict(str)

        running = RunningBrowser(Browser("b", "chromium", Path("b")), "", pid=browser.pid)
        page = BenchPage(cast(PageServer, Server()), tmp_path, running)
        assert page.document()["flags"] == "--added"
        browser.kill()
