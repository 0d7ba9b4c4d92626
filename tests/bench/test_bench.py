"""The benchmark's parts that need no browser."""

from __future__ import annotations

import errno
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_models import save

from nnjit_studio.bench import report
from nnjit_studio.bench.peers import kernels, models, tables
from nnjit_studio.bench.peers.compile_times import bench_compile
from nnjit_studio.bench.peers.onnx_models import write_onnx
from nnjit_studio.bench.peers.passes import PAPER_PASSES, variants, verdict
from nnjit_studio.bench.peers.sweep import Swept
from nnjit_studio.bench.statistics import geomean, ratios, spread
from nnjit_studio.compiler.oracle.reference import evaluate
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.spelling import WorkloadSpec, program_for, seeded_input
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.errors import BugError, PageError, UserError
from nnjit_studio.model import TensorSpec
from nnjit_studio.model.feeds import VOCABULARY, seeded_feeds
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.verdict import case
from nnjit_studio.verdict.figures import relative_error


def test_statistics() -> None:
    assert spread([4.0, 1.0, 2.0, 3.0, 5.0]) == {"median": 3.0, "min": 1.0, "iqr": 2.0}
    assert geomean([1.0, 4.0]) == 2.0
    assert geomean([]) is None
    ms = {"ours": {"median": 2.0}, "ort": {"median": 5.0}}
    assert ratios(ms) == {"ort": 2.5}
    got = np.array([1.0, 2.5], np.float32)
    assert relative_error(got, np.array([1.0, 2.0])) == 0.25
    assert relative_error(got, np.zeros(2)) == 2.5
    both = np.array([np.nan, np.inf, 4.0])
    assert relative_error(both + np.array([0, 0, 1.0]), both) == 0.25
    assert relative_error(np.array([], np.float32), np.array([])) == 0


@pytest.mark.parametrize("got", [[np.nan, 1.0], [np.inf, 1.0], [1.0]])
def test_outputs_that_are_nothing_are_not_timed(got: list[float]) -> None:
    with pytest.raises(BugError, match="An output"):
        relative_error(np.array(got, np.float32), np.array([1.0, 1.0]))


def test_files_of_a_model_are_those_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("bert.onnx.data", "bert_weights.bin", "bert.zip", "bert-large.onnx", "gpt.onnx"):
        (tmp_path / name).write_text(name)
    (tmp_path / "bert.onnx").write_text("reads bert.onnx.data and bert_weights.bin")
    (tmp_path / "bert").mkdir()
    found = case.files_of(tmp_path / "bert.onnx")
    assert sorted(f.name for f in found) == ["bert.onnx", "bert.onnx.data", "bert_weights.bin"]

    def other_disk(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    case.link(tmp_path / "bert.onnx", tmp_path / "bert" / "linked")
    monkeypatch.setattr("os.link", other_disk)
    case.link(tmp_path / "bert.onnx", tmp_path / "bert" / "copied")
    assert {f.read_text() for f in (tmp_path / "bert").iterdir()} == {
        "reads bert.onnx.data and bert_weights.bin"
    }


def test_native_outputs_of_inputs_in_float64(tmp_path: Path) -> None:
    """The page is given them in float32, native ONNX Runtime takes nothing but float64."""
    double, single = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
    save(
        tmp_path / "m.onnx",
        [onnx.helper.make_node("Cast", ["x"], ["y"], to=single)],
        [onnx.helper.make_tensor_value_info("x", double, [3])],
        [onnx.helper.make_tensor_value_info("y", single, [3])],
    )
    inputs = (TensorSpec("x", (3,), "f32"),)
    model = models.PreparedModel("m", tmp_path / "m.onnx", inputs, (), 0, {})
    np.testing.assert_array_equal(models.native_outputs(model)["y"], seeded_feeds(inputs)["x"])


def test_shapes_by_name_or_spelling() -> None:
    parsed = kernels.parse_shapes("K0,matmul:3x4x5:f32")
    assert [(n, str(s)) for n, s in parsed] == [
        ("K0", "matmul:384x768x768:f32"),
        ("matmul:3x4x5:f32", "matmul:3x4x5:f32"),
    ]
    assert len(kernels.parse_shapes(None)) == len(kernels.SHAPES)
    with pytest.raises(UserError, match="not a workload"):
        kernels.parse_shapes("K9")


def test_peers_are_known_and_installed(tmp_path: Path) -> None:
    assert kernels.parse_peers("none") == []
    with pytest.raises(UserError, match="no peer 'torch'"):
        kernels.parse_peers("ort,torch")
    with pytest.raises(UserError, match="npm ci"):
        kernels.find_node_modules(["ort"], tmp_path)
    package = tmp_path / "onnxruntime-web"
    package.mkdir()
    (package / "package.json").write_text('{"version": "9.9"}')
    assert kernels.find_node_modules(["ort"], tmp_path) == (tmp_path, {"onnxruntime-web": "9.9"})


@pytest.mark.parametrize(
    "text",
    [
        "matmul:3x4x5:f32+bias+gelu",
        "batch_matmul:2x3x4x5:f32",
        "matmul_var:3x4x5:f32+relu+residual",
        "conv2d:1x4x9x8x6x3x3x2x1x1x2:f32+bias+relu",
        "conv2d:2x3x7x7x5x3x3x1x2x2x1:f32",
    ],
)
def test_the_peer_computes_the_same(text: str, tmp_path: Path) -> None:
    spec, program = WorkloadSpec.parse(text), program_for(text)
    buffers = [b for b in program.buffers if b.role == "input"]
    inputs = {b.name: seeded_input(text, b.name, b.shape) for b in buffers}
    output = next(b for b in program.buffers if b.role == "output")
    write_onnx(tmp_path / "m.onnx", spec, [(b, inputs[b.name]) for b in buffers], output)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (got,) = session.run(None, {b.name: inputs[b.name] for b in buffers if not b.constant})
    (wanted,) = evaluate(program, inputs).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_variants_of_the_passes() -> None:
    found = dict(variants())
    assert len(found) == 2 * len(PAPER_PASSES) + 1
    assert not set(found["none"]) & set(PAPER_PASSES)
    assert set(found["+load_store_to_variable"]) == set(OPTIONAL_PASSES)
    assert PAPER_PASSES[1] not in found[f"all but {PAPER_PASSES[1]}"]
    assert "within noise" in verdict(1.01, 1.005, 1.02)
    assert "earn their keep" in verdict(1.2, 1.16, 1.24)
    assert "faster without" in verdict(0.8, 0.76, 0.84)
    assert "not settled" in verdict(1.0, 0.8, 1.2)


def row() -> dict[str, Any]:
    spec = WorkloadSpec.parse("matmul:2x2x2:f32")
    data = np.ones((2, 2), np.float32)
    prepared = kernels.Prepared(
        "tiny",
        spec,
        program_for(spec),
        {"in0": data, "in1": data},
        Swept(Candidate(4, 2, 1, 4, 2, 2), 0.5, 3, 9),
        16_000_000,
    )
    message = {
        "tier": "simd128",
        "threads": {"ours": 1, "ort": 1},
        "samples_ms": {"ours": [1.0, 1.0], "ort": [3.0, 3.0]},
    }
    outputs = {name: np.full(4, 2, np.float32) for name in ("ours", "ort")}
    return kernels._row(prepared, message, outputs, 1, {"simd128": 32.0})


def test_a_row_has_what_the_contract_says() -> None:
    made = row()
    assert made["workload"] == "matmul:2x2x2:f32"
    assert made["ms"]["ours"] == {"median": 1.0, "min": 1.0, "iqr": 0.0}
    assert made["ratio"] == {"ort": 3.0}
    assert made["max_rel_err"] == 0
    assert (made["threads"], made["tier"]) == (1, "simd128")
    assert made["gflops"]["ours"] == 16
    assert made["peak_share"] == 0.5
    means = kernels.geomeans([made], ["ort"])
    assert means == pytest.approx({"ort": 3, "better_peer": 3, "worst_to_better_peer": 3})


def test_results_are_appended(tmp_path: Path) -> None:
    result = {
        "date": "2026-01-02T03:04:05+00:00",
        "cpu": "a cpu",
        "cores": 2,
        "browser": "a browser",
        "versions": {"ort": "1.30.0"},
        "threads": 1,
        "peak_gflops": {"simd128": 32.0},
        "rows": [row()],
        "geomean": {"ort": 3.0},
    }
    path = tmp_path / "benchmarks" / "results.md"
    for _ in range(2):
        report.append(path, tables.kernels_report(result).markdown())
    text = path.read_text()
    assert text.startswith("# Results")
    assert text.count("## 2026-01-02: kernels, 1 thread") == 2
    assert "| matmul:2x2x2:f32 | 1.000 (1.000; 0.000) | 3.000 (3.000; 0.000) | 3.00 |" in text
    assert "ONNX Runtime Web / ours 3.00" in tables.kernels_report(result).text()


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    with closing(CompileProcess()) as process:
        shapes = kernels.parse_shapes("matmul:12x16x24:f32")
        return bench_compile(Compiler(process), shapes, lambda text: None, conventional=False)


def test_compile_times(compiled: dict[str, Any]) -> None:
    (made,) = compiled["rows"]
    assert made["compilations"] == 3 * made["candidates"] > 0
    assert 0 < made["ms"]["median"] <= made["ms"]["p99"] <= made["ms"]["max"]
    assert {"schedule", "encode"} <= set(made["pass_ms"])
    assert json.loads(json.dumps(compiled, allow_nan=False)) == compiled
    assert "settings to bytes" in tables.compile_report(compiled).markdown()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PageServer]:
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "a.json").write_text("{}")
    (tmp_path / "secret.json").write_text("{}")
    with PageServer({"files": tmp_path / "public"}) as running:
        yield running


def fetch(url: str, data: bytes | None = None, host: str = "") -> tuple[int, Any]:
    request = urllib.request.Request(url, data, {"Host": host} if host else {})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as e:
        e.close()
        return e.code, e.headers


def test_the_server_gives_its_files_alone(server: PageServer) -> None:
    status, headers = fetch(server.url("kernels.html"))
    assert status == 200
    assert headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    base = server.url("").removesuffix("bench/")
    assert fetch(base + "sdk/session.js")[0] == 200
    assert fetch(base + "files/a.json")[0] == 200
    assert fetch(base + "files/%2e%2e/secret.json")[0] == 404
    assert fetch(base + "node_modules/a.json")[0] == 404
    assert fetch(server.url("kernels.html"), host="evil.example")[0] == 403
    origin = base.split("/")[2]
    assert fetch(f"http://{origin}/bench/kernels.html")[0] == 404


def test_the_server_collects_reports(server: PageServer) -> None:
    base = server.url("").removesuffix("bench/")
    assert fetch(base + "report", b'{"type": "row", "index": 3}')[0] == 204
    assert server.next_message(5) == {"type": "row", "index": 3}
    assert fetch(base + "upload/0-ours", b"\0\1")[0] == 204
    assert server.uploads == {"0-ours": b"\0\1"}
    server.fail("the browser left")
    with pytest.raises(PageError, match="the browser left"):
        server.next_message(5)
    with pytest.raises(PageError, match="said nothing"):
        server.next_message(0.01)


def test_the_server_hands_commands_to_a_page_that_waits(server: PageServer) -> None:
    base = server.url("").removesuffix("bench/")

    def page() -> None:
        for _ in range(2):
            with urllib.request.urlopen(base + "command") as answer:
                asked = json.load(answer)
            fetch(base + "report", json.dumps({"type": "reply", "did": asked["do"]}).encode())

    with ThreadPoolExecutor(1) as pool:
        pool.submit(page)
        assert server.ask({"do": "serve"}, 5)["did"] == "serve"
        assert server.ask({"do": "record"}, 5)["did"] == "record"


def test_feeds_of_models_are_seeded_and_valid() -> None:
    specs = [
        TensorSpec("input_ids", (1, 8), "i64"),
        TensorSpec("token_type_ids", (1, 8), "i64"),
        TensorSpec("position_ids", (1, 8), "i64"),
        TensorSpec("attention_mask", (1, 8), "i64"),
        TensorSpec("pixels", (2, 3), "f32"),
    ]
    feeds, again = seeded_feeds(specs), seeded_feeds(specs)
    assert all(np.array_equal(feeds[name], again[name]) for name in feeds)
    assert len(set(feeds["input_ids"].ravel())) > 1
    assert feeds["input_ids"].max() < VOCABULARY
    assert feeds["token_type_ids"].tolist() == feeds["attention_mask"].tolist() == [[1] * 8]
    assert feeds["position_ids"].tolist() == [list(range(8))]
    assert np.ptp(feeds["pixels"]) > 0


def model_row(name: str, threads: int, ratio: float) -> dict[str, Any]:
    ms = {n: {"median": m, "min": m, "iqr": 0.0} for n, m in (("ours", 2.0), ("ort", 2 * ratio))}
    return {
        "model": name,
        "threads": threads,
        "ms": ms,
        "ratio": {"ort": ratio},
        "intervals": {"ort": {"median": ratio, "low": ratio - 0.1, "high": ratio + 0.1}},
        "file_bytes": 2**20,
        "memory_bytes": {"ours": 2**21, "ort": 2**22},
        "cold_ms": {"ours": 10.0},
        "max_rel_err": 1e-6,
        "native_err": {"ours": 1e-6, "ort": 2e-6},
        "browser": "Chromium",
        "flags": "",
    }


def test_models_document_means_by_threads() -> None:
    rows = [model_row("a", 1, 1.0), model_row("b", 1, 4.0), model_row("a", 2, 3.0)]
    result = models.document(rows, {"onnxruntime-web": "1"}, [0.1])
    assert result["ratios"]["ort/1t"] == {"geomean": 2.0, "worst": 1.0}
    assert result["ratios"]["ort/2t"]["worst"] == 3.0
    text = tables.models_report(result).markdown()
    times = "| b | 1 | 2.0 (2.0; 0.0) | 8.0 (8.0; 0.0) | 4.00x (3.90..4.10) |"
    assert f"{times} 1 | 2 | 4 | 10 | - | 1.0e-06 | 2.0e-06 |" in text
    assert "ort/1t: geometric mean 2.00, worst 1.00." in text


def test_a_peer_that_computes_something_else_has_no_ratio() -> None:
    rows = [model_row("a", 1, 2.0), {**model_row("b", 1, 9.0), "ratio": {}, "wrong": ["ort"]}]
    result = models.document(rows, {}, [0.1])
    assert result["ratios"] == {"ort/1t": {"geomean": 2.0, "worst": 2.0}}
    assert "| wrong |" in tables.models_report(result).markdown()
    assert "ort computes something else" in models.row_text(rows[1])


def test_models_have_peers_of_their_own() -> None:
    assert models.parse_peers("wasm", "ort") == ["ort"]
    assert models.parse_peers("webgpu", "ort,jsep") == ["ort", "jsep"]
    with pytest.raises(UserError, match="'tfjs'"):
        models.parse_peers("wasm", "ort,tfjs")
    with pytest.raises(UserError, match="'jsep' on wasm"):
        models.parse_peers("wasm", "jsep")
