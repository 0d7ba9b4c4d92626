"""A profile's numbers: rates, roofline, memory, and what it says in words."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from profiles import BANDWIDTH, DEVICE, GRAPH, MATMUL, PLAN, TRANSPOSE, profile

from nnjit_studio.analysis.profile.compare import as_csv, as_markdown, compare, headline, load
from nnjit_studio.analysis.profile.compare import as_text as comparison_text
from nnjit_studio.analysis.profile.findings import findings, only_moves
from nnjit_studio.analysis.profile.memory import renderer_memory
from nnjit_studio.analysis.profile.node_data import node_data
from nnjit_studio.analysis.profile.records import ModelProfile, Steady
from nnjit_studio.analysis.profile.rows import bytes_moved, step_rows
from nnjit_studio.analysis.profile.text import as_text
from nnjit_studio.errors import UserError
from nnjit_studio.model import TensorSpec, Workload
from nnjit_studio.model.memory import check_fits, forecast, live_bytes
from nnjit_studio.records import Inference
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.records.gpu_profile import GpuProfile


def test_rates_count_the_threads_that_ran() -> None:
    first, _, third = profile().steps
    assert first.gflops == pytest.approx(1.024)
    assert first.percent_of_peak == pytest.approx(10.24)
    assert third.gflops == pytest.approx(5.12)
    assert third.percent_of_peak == pytest.approx(25.6)  # of two threads
    assert (first.nbytes, first.source) == (3 * 256, ("MatMul", "Add"))
    assert first.share == pytest.approx(5 / 7)


def test_roofline_takes_the_nearer_limit() -> None:
    first, turn, third = profile(bandwidth=BANDWIDTH).steps
    # 768 bytes in 1 us are 0.768 GB/s, 19 % of one thread's 4; 1.024 of 10 GFLOP/s are 10 %
    assert (first.bound, first.percent_of_roof) == ("memory", pytest.approx(19.2))
    assert (turn.bound, turn.percent_of_roof) == ("memory", pytest.approx(64.0))
    assert third.percent_of_roof == pytest.approx(64.0)  # of two threads' 6
    assert first.intensity == pytest.approx(1024 / 768)


def test_the_peak_of_a_gpu_says_nothing_of_a_step_in_wasm() -> None:
    peak = {"wgsl": 10.0}
    gpu = replace(DEVICE, threads=1, gpu=GpuProfile(), tiers=("wgsl",), peak_gflops=peak)
    times = Inference({}, (3e-3,), (1e-3, 1e-3, 1e-3))
    given = GRAPH, PLAN, (MATMUL, TRANSPOSE), times, gpu, {1: 4.0}
    divided = step_rows(*given, ("webgpu", "webgpu", "wasm"))
    assert [s.device for s in divided] == ["webgpu", "webgpu", "wasm"]
    first, _, third = divided
    assert first.percent_of_peak and first.percent_of_roof
    assert third.gflops == first.gflops and third.percent_of_peak is None
    assert third.percent_of_roof is None
    assert {s.device for s in step_rows(*given)} == {"webgpu"}
    assert {s.device for s in profile().steps} == {"wasm"}


def test_without_a_bandwidth_only_a_rate_near_the_peak_has_a_place() -> None:
    slow, turn, _ = profile().steps
    assert (slow.bound, slow.percent_of_roof) == ("", None)
    assert (turn.bound, turn.percent_of_roof) == ("", None)
    fast, *_ = profile((1.2e-4, 1e-4, 1e-4)).steps
    assert (fast.bound, fast.percent_of_roof) == ("compute", pytest.approx(85.33, abs=0.01))
    assert any("nnjit doctor --microbench" in line for line in findings(profile()))
    assert not any("microbench" in line for line in findings(profile(bandwidth=BANDWIDTH)))


def test_a_gather_reads_of_its_table_what_it_writes() -> None:
    table = TensorSpec("table", (30000, 8), "f32")
    graph = replace(GRAPH, tensors={**GRAPH.tensors, "table": table})
    node = replace(GRAPH.nodes[1], inputs=("table", "x"))
    assert bytes_moved(graph, node, TRANSPOSE) == table.nbytes + 512
    assert bytes_moved(graph, node, Workload("take", (8, 8), "f32")) == 3 * 256


def test_findings_are_computed() -> None:
    told = findings(profile((1.2e-4, 3e-4, 1.2e-4), (1, 1, 1)))
    assert told[0].startswith("56% of the time in 1 transpose step, which only moves data:")
    assert told[1].startswith("44% of the time in 2 matmul steps at 85% of the multiply-add peak")
    told = findings(profile((1.2e-4, 1e-6, 1.2e-4), (1, 1, 1)))
    assert "at 85% of the multiply-add peak: nothing to gain." in told[0]
    assert told[1] == "0% in 1 other step."
    told = findings(profile((0.9e-4, 1e-6, 0.9e-4), (1, 1, 1)))
    assert "at 114% of the multiply-add peak: nothing to gain; the peak was measured" in told[0]
    slow = findings(profile((1e-3, 1e-5, 1e-3), (1, 1, 1), BANDWIDTH))
    assert "at 19% of the memory bandwidth: at most 80% of the whole to gain" in slow[0]
    assert "furthest off is product (19%, 1 µs)" in slow[0]
    assert any("takes 0.6 µs (30.0%) more than its steps" in told for told in findings(profile()))
    assert any(
        "page starts in 0.00 s, without its download; most of it, 0.00 s, is 'first run'" in t
        for t in told
    )


def test_findings_say_operators_in_words() -> None:
    found = profile((1.2e-4, 3e-4, 1.2e-4), (1, 1, 1))
    key = "tir_sigmoid_multiply_tir_sigmoid_tir_tanh_multiply_add:1x128:f32"
    steps = tuple(replace(step, workload=key) for step in found.steps)
    told = findings(replace(found, steps=steps))
    assert "3 sigmoid, multiply, tanh, add steps" in told[0]


@pytest.mark.parametrize(
    ("kind", "moves"),
    [("transpose", True), ("take", True), ("expand_dims_cast", True), ("te_gather_nd", True),
     ("transpose_add", False), ("less_add_where", False), ("cast_multiply", False),
     ("matmul", False), ("takeaway", False)],
)  # fmt: skip
def test_kinds_that_only_move_data(kind: str, moves: bool) -> None:
    assert only_moves(kind) == moves


def test_text_has_every_step_slowest_first_and_the_findings() -> None:
    lines = as_text(profile()).splitlines()
    assert lines[0].startswith("g: 0.002 ms (min 0.002, IQR 0.000, 9 runs), embedded, simd128")
    assert [line.split()[0] for line in lines[4:7]] == ["product", "turn", "second"]
    assert "2 faster steps" in as_text(profile(), top=1)


def test_live_bytes_follow_lifetimes() -> None:
    # x lives throughout; p until the transpose read it; t until the end; y at the end
    assert live_bytes(PLAN) == (512, 768, 768)
    found = forecast(PLAN)
    assert found.peak_live_bytes == 768
    assert (found.weights_bytes, found.arena_bytes, found.state_bytes) == (4096, 768, 0)
    assert found.wasm_bytes == 65536  # 1024 + 4096 + 768: one page
    assert found.js_bytes == 4096


def test_a_step_over_its_own_input_needs_the_bytes_once() -> None:
    buffers = tuple(replace(b, offset=256) if i == 2 else b for i, b in enumerate(PLAN.buffers))
    assert live_bytes(replace(PLAN, buffers=buffers)) == (512, 512, 512)


def test_the_forecast_is_the_engines_own_layout() -> None:
    large = replace(PLAN, weights_bytes=3 * 65536, arena_bytes=65536 + 64)
    # 1024 + 196608 = 197632, + 65600 = 263232: 4.02 pages
    assert forecast(large).wasm_bytes == 5 * 65536


def test_what_no_page_holds_is_refused_in_the_pages_words() -> None:
    check_fits(forecast(PLAN))
    huge = replace(PLAN, arena_bytes=2**32)
    with pytest.raises(UserError, match="needs 4097 MiB, but a page's memory ends at 4096 MiB"):
        check_fits(forecast(huge))
    page = Path(__file__).parents[2] / "resources" / "engine" / "plan.js"
    assert "but a page's memory ends at 4096 MiB." in page.read_text()


def test_another_plan_over_the_same_memory_counts() -> None:
    other = replace(PLAN, arena_bytes=2 * 65536)
    assert forecast(PLAN, [other]).arena_bytes == 2 * 65536


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux tells")
def test_renderers_among_the_descendants_are_counted() -> None:
    assert renderer_memory() is None
    inner = [sys.executable, "-c", "print('here', flush=True); input()", "--type=renderer"]
    outer = f"import subprocess; subprocess.run({inner!r})"
    with subprocess.Popen(
        [sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline().strip() == b"here"
        found = renderer_memory()
        process.stdin.write(b"\n")
        process.stdin.close()
    assert found is not None
    assert 2**20 < found[0] <= found[1]


def test_json_comes_back(tmp_path: Path) -> None:
    before = profile(bandwidth=BANDWIDTH)
    file = tmp_path / "p.json"
    file.write_text(json.dumps(before.to_json(), allow_nan=False))
    assert load(file) == before
    older = before.to_json()
    del older["steps"][0]["chunks"]
    assert ModelProfile.from_json(older).steps[0].chunks == ()
    newer = {**before.to_json(), "news": 1}
    newer["warm"]["p99_ms"] = 3.0
    assert ModelProfile.from_json(newer) == before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("steps", 0, "ms"), "1"),
        (("steps", 0, "ms"), None),
        (("steps", 0, "node"), 3),
        (("steps", 0, "percent_of_peak"), "much"),
        (("warm", "median_ms"), []),
        (("threads",), "two"),
        (("memory", "forecast", "arena_bytes"), 1.5),
    ],
)
def test_a_profile_with_a_wrong_field_is_none(path: tuple[Any, ...], value: object) -> None:
    data = json.loads(json.dumps(profile().to_json()))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(UserError, match=f"no profile.*{path[-1]}"):
        ModelProfile.from_json(data)


def test_the_spread_of_few_runs_lies_within_them() -> None:
    assert Steady.of((1.0, 2.0)) == Steady(1.5, 1.0, 0.5, 2, 1.0, 2.0)
    assert Steady.of((3.0,)) == Steady(3.0, 3.0, 0.0, 1, 3.0, 3.0)
    assert Steady.of((3.0, 4.0, 9.0)).estimate == Estimate.of((3.0, 4.0, 9.0))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": "g", "target": 3}', "\x00"])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(text)
    with pytest.raises(UserError, match="no profile"):
        load(file)
    with pytest.raises(UserError, match="no file"):
        load(tmp_path / "absent.json")


def test_steps_are_matched_and_sorted_by_gain() -> None:
    before = profile((1e-3, 2e-4, 2e-4))
    found = compare(before, profile((5e-4, 3e-4, 2e-4), median_ms=0.001))
    assert [(s.node, s.ratio) for s in found.steps] == [
        ("product", pytest.approx(2.0)),
        ("second", pytest.approx(1.0)),
        ("turn", pytest.approx(2 / 3)),
    ]
    assert found.to_json()["ratio"] == pytest.approx(2.0)
    renamed = replace(before, steps=tuple(replace(s, node=f"new {s.node}") for s in before.steps))
    assert all(s.ratio == 1.0 for s in compare(before, renamed).steps)  # by their workload
    shorter = compare(before, replace(before, steps=before.steps[:1]))
    assert [(s.node, s.before_ms, s.after_ms) for s in shorter.steps if s.ratio is None] == [
        ("turn", 2e-4, None),
        ("second", 2e-4, None),
    ]
    assert "2 one side only" in comparison_text(shorter)


def test_a_comparison_tells_apart_what_is_further_apart_than_the_runs() -> None:
    """437 ms with runs of 399 to 560, later 560 ms of 496 to 613: that is no slow-down."""
    first = replace(profile(), warm=Steady(437.203, 286.0, 170.0, 20, 399.0, 560.0))
    then = replace(profile(), warm=Steady(560.475, 270.0, 118.0, 20, 496.0, 613.0))
    assert "437 ms" in headline(compare(first, then))
    assert headline(compare(first, then)).endswith(", not told apart")
    later = replace(then, warm=replace(then.warm, low_ms=561.0))
    assert headline(compare(first, later)).endswith(", 0.78 times as fast")
    older = replace(first, warm=Steady(437.203, 286.0, 170.0, 20))  # has no interval
    assert headline(compare(older, later)).endswith(", not told apart")
    noisy = replace(first, steps=tuple(replace(s, iqr_ms=s.ms) for s in first.steps))
    slower = replace(first, steps=tuple(replace(s, ms=1.9 * s.ms) for s in noisy.steps))
    assert {s.outcome for s in compare(noisy, slower).steps} == {"not told apart"}
    assert "3 not told apart." in comparison_text(compare(noisy, slower))
    assert {s.outcome for s in compare(profile(), slower).steps} == {"slower"}


def test_comparisons_as_tables() -> None:
    steps = tuple(
        replace(s, node=n) for s, n in zip(profile().steps, ("a|b", "=1+1", "\t=2"), strict=True)
    )
    named = replace(profile(), steps=steps)
    found = compare(named, named)
    rows = as_csv(found).splitlines()
    assert rows[0] == "step,workload,before ms,after ms,gain ms,ratio"
    assert any(
        row.startswith("'=1+1,transpose:8x8:f32,0.0002,0.0002,+0.0000,1.000") for row in rows
    )
    assert any(row.startswith("'\t=2,") for row in rows)
    table = as_markdown(found).splitlines()
    assert table[3] == "|---|---|--:|--:|--:|--:|"
    assert any(line.startswith("| a\\|b | matmul:8x8x8:f32 |") for line in table)


def test_node_data_has_the_time_once() -> None:
    data = node_data(profile())
    values = {name: entry["value"] for name, entry in data["results"].items()}
    assert values == {
        "MatMul": 1e-3,
        "Add": 0.0,
        "Transpose": 2e-4,
        "MatMul_1": 2e-4,
    }
    assert [item["stop"] for item in data["gradient"]] == [0.0, 0.5, 1.0]
    assert set(data) == {"results", "gradient"}


def test_a_step_without_a_source_stands_under_its_own_name() -> None:
    bare = replace(profile(), steps=tuple(replace(s, source=()) for s in profile().steps))
    assert set(node_data(bare)["results"]) == {"product", "turn", "second"}


def test_the_import_is_told_without_the_kernels() -> None:
    cold = {"reading the model": 16_200.0, "compiling kernels": 2_400.0, "first run": 100.0}
    told = " ".join(findings(replace(profile(), cold_ms=cold)))
    assert "The page starts in 0.10 s" in told, "as in the window's header"
    assert "not shipped: import 16.2 s, kernels 2.4 s." in told
