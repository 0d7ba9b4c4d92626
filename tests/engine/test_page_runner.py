from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_page import Answer, FakePage, Line, fake_page
from waiting import PATIENCE_S, until

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.engine.runner.requests import CHUNK_BYTES
from nnjit_studio.errors import BugError, PageError, TargetError, UserError
from nnjit_studio.model import Plan, PlanBuffer, PlanPort, PlanStep, TensorSpec
from nnjit_studio.records import (
    Fixture,
    FixtureArg,
    Kernel,
    MeasurePolicy,
    Pulse,
    RateItem,
    RateRequest,
    Tap,
    Trial,
)
from nnjit_studio.records.candidate import Candidate

KERNEL = Kernel("copy:4:f32#0", None, "simd128", b"\0asm", "ab")
OTHER = Kernel(
    "copy:4:f32#0", Candidate(8, 6, 1, 8, 6, 4), "simd128", b"\0asm2", "cd", ((1, 8),), 3
)
PROBED = {
    "type": "probed",
    "cross_origin_isolated": True,
    "simd": True,
    "relaxed_simd": True,
    "threads": True,
    "cores": 6,
    "timer_quantum_ms": 0.005,
    "user_agent": "fake/1",
    "peak_gflops": {"simd128": 40.5},
}
MEASURED = {
    "type": "measured",
    "samples_ms": [1.5, 1.25],
    "incumbent_ms": [2.0],
    "batch": 8,
    "error_ratio": 0.5,
    "guard_ok": True,
    "stopped_early": False,
    "instantiate_ms": 0.25,
    "error": "",
}


def plan(weights_bytes: int = 0) -> Plan:
    inputs = (
        PlanPort(TensorSpec("x", (2, 3), "f32"), 0),
        PlanPort(TensorSpec("mask", (4,), "i64"), 1),
    )
    outputs = (PlanPort(TensorSpec("y", (3, 2), "f32"), 2), PlanPort(TensorSpec("n", (), "i32"), 3))
    buffers = tuple(PlanBuffer("arena", 64 * i, 64) for i in range(4))
    steps = (PlanStep("call", "copy", (0, 2)), PlanStep("return"))
    return Plan("tiny", inputs, outputs, buffers, steps, weights_bytes, 256)


FEEDS = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "mask": np.arange(4)}


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as hub:
        yield hub


def says(**fields: Any) -> Answer:
    return lambda page, header, blobs: page.reply(header, fields)


def engine(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
    """Answers ``infer`` with x transposed and a count."""
    if header["type"] != "infer":
        page.reply(header, {"type": "ok"})
        return
    x = np.frombuffer(blobs[0], np.float32).reshape(2, 3)
    described = [
        {"name": "y", "dtype": "f32", "shape": [3, 2]},
        {"name": "n", "dtype": "i32", "shape": []},
    ]
    reply = {"type": "inferred", "outputs": described, "runs_ms": [1.0] * header["runs"]}
    reply["steps_ms"] = [0.5] if header["profile"] else []
    page.reply(header, reply, [np.ascontiguousarray(x.T).data, np.int32(7).tobytes()])


def test_load_streams_the_weights_in_chunks(hub: Hub, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    content = np.random.default_rng(0).bytes(CHUNK_BYTES + 4096)
    weights.write_bytes(content)
    with fake_page(hub) as page:
        PageRunner(hub, "fake").load(plan(len(content)), weights)
    (load, _), *chunks = page.seen
    assert load["type"] == "load"
    assert Plan.from_json(load["plan"]) == plan(len(content))
    assert [(c["type"], c["offset"], len(b[0])) for c, b in chunks] == [
        ("weights", 0, CHUNK_BYTES),
        ("weights", CHUNK_BYTES, 4096),
    ]
    assert b"".join(bytes(b[0]) for _, b in chunks) == content


def test_weights_of_another_length_are_refused(hub: Hub, tmp_path: Path) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"1234")
    with fake_page(hub) as page, pytest.raises(UserError, match="has 4 bytes, the plan wants 64"):
        PageRunner(hub, "fake").load(plan(64), weights)
    assert page.seen == []


@pytest.fixture
def loaded(hub: Hub, tmp_path: Path) -> Iterator[PageRunner]:
    weights = tmp_path / "empty.bin"
    weights.write_bytes(b"")
    with fake_page(hub, engine):
        runner = PageRunner(hub, "fake")
        runner.load(plan(), weights)
        yield runner


def test_infer_returns_arrays_by_name(loaded: PageRunner) -> None:
    result = loaded.infer(FEEDS, runs=3, profile=True)
    np.testing.assert_array_equal(result.outputs["y"], FEEDS["x"].T)
    assert result.outputs["y"].flags.writeable
    assert result.outputs["n"].shape == ()
    assert result.outputs["n"] == 7
    assert result.runs_ms == (1.0, 1.0, 1.0)
    assert result.steps_ms == (0.5,)
    assert loaded.infer(FEEDS).steps_ms == ()


def test_taps_come_as_bytes_in_their_order(hub: Hub, tmp_path: Path) -> None:
    taps = [Tap(0, 2, 4, 3), Tap(0, 3, 0, 2)]
    (tmp_path / "w").write_bytes(b"")

    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        copies = [
            bytes([t["buffer"]] * t["nbytes"]) for t in header.get("taps", []) if t["step"] < 9
        ]
        page.reply(header, {"type": "inferred", "outputs": []}, copies)

    with fake_page(hub, answer):
        runner = PageRunner(hub, "fake")
        runner.load(plan(), tmp_path / "w")
        assert runner.tap(FEEDS, taps) == [b"\2\2\2", b"\3\3"]
        with pytest.raises(PageError, match="other bytes"):
            runner.tap(FEEDS, [Tap(9, 0, 0, 4)])


TRIED = {"type": "tried", "mode": "runs", "rounds": 2, "ms": [1.0], "without_ms": [1.5]}


def test_a_trial_sends_inputs_and_kernels_and_what_the_page_refuses_is_an_error(
    hub: Hub, tmp_path: Path
) -> None:
    (tmp_path / "w").write_bytes(b"")

    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        if header["type"] != "trial":
            page.reply(header, {"type": "ok"})
        elif header["kernels"][0]["settings"] == "default":
            page.reply(header, {"type": "error", "error": "it traps", "hint": ""})
        else:
            samples = {"runs_ms": [9.0], "runs_without_ms": [9.5]} if len(blobs) == 3 else {}
            page.reply(header, {**TRIED, **samples})

    with fake_page(hub, answer) as page:
        runner = PageRunner(hub, "fake")
        runner.load(plan(), tmp_path / "w")
        found = runner.trial(FEEDS, [OTHER], MeasurePolicy(pairs=1))
        assert found == Trial("runs", 2, (1.0,), (1.5,), (9.0,), (9.5,))
        header, blobs = page.seen[-1]
        assert header["policy"]["pairs"] == 1 and header["kernels"] == [OTHER.header()]
        assert bytes(blobs[-1]) == OTHER.data
        assert "traps" in runner.trial(FEEDS, [KERNEL], MeasurePolicy()).error
        with pytest.raises(PageError, match="runs_ms"):
            runner.trial(FEEDS, [OTHER, OTHER], MeasurePolicy())


def test_infer_takes_any_memory_layout_and_byte_order(loaded: PageRunner) -> None:
    strided = np.asfortranarray(FEEDS["x"]).astype(">f4")
    result = loaded.infer({**FEEDS, "x": strided})
    np.testing.assert_array_equal(result.outputs["y"], FEEDS["x"].T)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": FEEDS["x"]}, r"'mask' is missing.*int64 of shape 4"),
        ({**FEEDS, "z": FEEDS["x"]}, r"no input 'z'.*x, mask"),
        (
            {**FEEDS, "x": FEEDS["x"].T},
            r"'x' must be float32 of shape 2x3, not float32 of shape 3x2",
        ),
        (
            {**FEEDS, "mask": np.zeros(4, np.int32)},
            r"'mask' must be int64 of shape 4, not int32 of shape 4",
        ),
    ],
)
def test_wrong_feeds_are_named(loaded: PageRunner, feeds: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        loaded.infer(feeds)
    assert loaded.infer(FEEDS).outputs["n"] == 7


def test_infer_before_load_is_our_bug(hub: Hub) -> None:
    with pytest.raises(BugError, match="before a model was loaded"):
        PageRunner(hub, "fake").infer({})


def test_outputs_that_the_plan_has_not_are_refused(hub: Hub, tmp_path: Path) -> None:
    weights = tmp_path / "empty.bin"
    weights.write_bytes(b"")
    with fake_page(hub, says(type="inferred", outputs=[], runs_ms=[1.0])):
        runner = PageRunner(hub, "fake")
        runner.load(plan(), weights)
        with pytest.raises(PageError, match="other outputs"):
            runner.infer(FEEDS)


def test_register_sends_headers_and_modules(hub: Hub) -> None:
    with fake_page(hub) as page:
        PageRunner(hub, "fake").register([KERNEL, OTHER])
    ((header, blobs),) = page.seen
    assert header["kernels"] == [KERNEL.header(), OTHER.header()]
    assert [bytes(blob) for blob in blobs] == [KERNEL.data, OTHER.data]
    assert OTHER.header() == {
        "workload": "copy:4:f32#0",
        "settings": str(OTHER.candidate),
        "tier": "simd128",
        "sha256": "cd",
        "panels": [[1, 8]],
        "parallel_extent": 3,
    }


def test_fixture_travels_by_blob_index(hub: Hub) -> None:
    args = (
        FixtureArg("input", "f32", 16, b"a" * 16, (2, 2)),
        FixtureArg("output", "f32", 16),
        FixtureArg("output", "i64", 8),
        FixtureArg("workspace", "f32", 64),
    )
    expected = (np.array([1.5, 2.5]), np.array([7]))
    bound = (np.array([1e-3, 1e-3], np.float32), np.zeros(1, np.float32))
    with fake_page(hub) as page:
        PageRunner(hub, "fake").set_fixture(Fixture("w", args, expected, bound))
    ((header, blobs),) = page.seen
    assert [arg["blob"] for arg in header["args"]] == [0, None, None, None]
    assert [arg["pack"] for arg in header["args"]] == [[2, 2], None, None, None]
    assert [arg["role"] for arg in header["args"]] == ["input", "output", "output", "workspace"]
    assert bytes(blobs[0]) == b"a" * 16
    first, second = header["outputs"]
    np.testing.assert_array_equal(np.frombuffer(blobs[first["expected"]], "<f4"), [1.5, 2.5])
    np.testing.assert_array_equal(np.frombuffer(blobs[first["bound"]], "<f4"), bound[0])
    np.testing.assert_array_equal(np.frombuffer(blobs[second["expected"]], "<i8"), [7])


def test_a_blob_that_no_frame_holds_goes_ahead_in_parts(hub: Hub) -> None:
    data = np.arange(CHUNK_BYTES + 5, dtype=np.uint8).tobytes()
    args = (FixtureArg("input", "u8", len(data), data), FixtureArg("input", "u8", 2, b"ab"))
    with fake_page(hub) as page:
        PageRunner(hub, "fake").set_fixture(Fixture("w", args, (), ()))
    *ahead, (header, blobs) = page.seen
    assert [(h["blob"], h["offset"], h["nbytes"]) for h, _ in ahead] == [
        (0, 0, len(data)),
        (0, CHUNK_BYTES, len(data)),
    ]
    assert b"".join(bytes(part) for _, (part,) in ahead) == data
    assert [arg["blob"] for arg in header["args"]] == [0, 1]
    assert [bytes(b) for b in blobs] == [b"", b"ab"]


def test_measure_returns_all_samples(hub: Hub) -> None:
    with fake_page(hub, says(**MEASURED)) as page:
        result = PageRunner(hub, "fake").measure(OTHER, KERNEL, MeasurePolicy(pairs=2))
    ((header, blobs),) = page.seen
    assert header["policy"]["pairs"] == 2
    assert header["challenger"] == OTHER.header()
    assert header["incumbent"] == KERNEL.header()
    assert [bytes(blob) for blob in blobs] == [OTHER.data, KERNEL.data]
    assert (result.workload, result.settings) == (OTHER.workload, OTHER.settings)
    assert result.samples_ms == (1.5, 1.25)
    assert result.incumbent_ms == (2.0,)
    assert (result.error_ratio, result.guard_ok, result.error) == (0.5, True, "")


def test_measure_without_incumbent_and_with_an_infinite_error(hub: Hub) -> None:
    with fake_page(hub, says(**{**MEASURED, "error_ratio": "inf", "error": "It traps."})) as page:
        result = PageRunner(hub, "fake").measure(KERNEL, None, MeasurePolicy())
    ((header, blobs),) = page.seen
    assert header["incumbent"] is None
    assert len(blobs) == 1
    assert result.error_ratio == float("inf")
    assert result.error == "It traps."


def test_a_measurement_that_the_page_refuses_is_a_result(hub: Hub) -> None:
    with fake_page(hub, says(type="error", error="No fixture.", hint="")):
        result = PageRunner(hub, "fake").measure(KERNEL, None, MeasurePolicy())
    assert result.error == "No fixture."
    assert result.samples_ms == ()


def test_a_page_lost_while_it_measures_is_an_error(hub: Hub) -> None:
    def leave(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        page.socket.close()

    with fake_page(hub, leave), pytest.raises(PageError, match="closed its connection"):
        PageRunner(hub, "fake").measure(KERNEL, None, MeasurePolicy())


def test_probe_tells_device_and_engine(hub: Hub) -> None:
    with fake_page(hub, says(**PROBED)) as page:
        runner = PageRunner(hub, "embedded", flags="--some-flag")
        profile = runner.probe([("simd128", b"wasm", 96)])
        again = runner.probe()
    header, blobs = page.seen[0]
    assert header["peak"] == [{"tier": "simd128", "flops_per_iteration": 96}]
    assert bytes(blobs[0]) == b"wasm"
    assert profile == again
    assert len(profile.device_id) == 16
    assert (profile.target, profile.flags) == ("embedded", "--some-flag")
    assert (profile.user_agent, profile.cores) == ("fake/1", 6)
    assert profile.tiers == ("simd128", "relaxed-simd")
    assert profile.peak_gflops == {"simd128": 40.5}
    assert profile.cross_origin_isolated
    assert profile.l1_bytes >= 8 * 1024
    assert profile.l2_bytes > profile.l1_bytes


def test_a_pulse_takes_the_peak_kernel_that_was_probed(hub: Hub) -> None:
    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        pulsed = {"type": "pulsed", "gflops": 38.5, "hidden": True, "on_battery": None}
        page.reply(header, PROBED if header["type"] == "probe" else pulsed)

    with fake_page(hub, answer) as page:
        runner = PageRunner(hub, "embedded")
        with pytest.raises(BugError, match="before the device was probed"):
            runner.pulse("simd128")
        runner.probe([("simd128", b"wasm", 96)])
        assert runner.pulse("simd128") == Pulse(38.5, hidden=True)
    header, blobs = page.seen[-1]
    assert (header["type"], header["flops_per_iteration"]) == ("pulse", 96)
    assert bytes(blobs[0]) == b"wasm"


def test_threads_reach_the_page_and_the_identity(hub: Hub, tmp_path: Path) -> None:
    weights = tmp_path / "empty.bin"
    weights.write_bytes(b"")

    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        page.reply(header, PROBED if header["type"] == "probe" else {"type": "ok"})

    with fake_page(hub, answer) as page:
        runner = PageRunner(hub, "embedded", threads=2)
        profile = runner.probe()
        runner.load(plan(), weights)
        runner.set_fixture(Fixture("w", (), (), ()))
    sent = {header["type"]: header.get("threads") for header, _ in page.seen}
    assert sent == {"probe": None, "load": 2, "fixture": 2}
    assert (profile.threads, profile.label) == (2, "embedded/2t")
    assert profile.peak("simd128") == 81.0
    assert profile.peak("relaxed-simd") is None


def test_threads_without_shared_memory_are_refused(hub: Hub) -> None:
    alone = says(**{**PROBED, "threads": False})
    with fake_page(hub, alone):
        assert PageRunner(hub, "old").probe().threads == 1
        with pytest.raises(TargetError, match="'old' has no shared memory"):
            PageRunner(hub, "old", threads=2).probe()


def test_an_engine_without_simd_is_no_target(hub: Hub) -> None:
    no_simd = says(**{**PROBED, "simd": False})
    with fake_page(hub, no_simd), pytest.raises(TargetError, match="'old' has no WebAssembly SIMD"):
        PageRunner(hub, "old").probe()


@pytest.mark.parametrize("rows", [None, [1.0], [["1"]], {"0": [1.0]}])
def test_rates_that_are_no_rows_of_numbers_are_an_error(hub: Hub, rows: Any) -> None:
    with (
        fake_page(hub, says(type="rated", samples_ms=rows)),
        pytest.raises(PageError, match=r"'rated' is malformed: .*samples_ms"),
    ):
        PageRunner(hub, "fake").rates([b"k"], RateRequest((RateItem(0),)))


def test_rates_are_one_row_for_each_item(hub: Hub) -> None:
    with fake_page(hub, says(type="rated", samples_ms=[[1, 2.5]])):
        request = RateRequest((RateItem(0),))
        assert PageRunner(hub, "fake").rates([b"k"], request) == [[1, 2.5]]


def test_cancel_ends_the_call_that_waits_and_those_behind_it(hub: Hub) -> None:
    runner = PageRunner(hub, "fake")
    runner._link._turn = line = Line()  # type: ignore[assignment]
    silent = threading.Event()

    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        if silent.is_set():
            page.reply(header, {"type": "ok"})

    with fake_page(hub, answer) as page, ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(runner.register, [KERNEL]) for _ in range(2)]
        until(lambda: page.seen and line.came == 2)
        runner.cancel()
        for call in calls:
            with pytest.raises(PageError, match=r"^cancelled$"):
                call.result(PATIENCE_S)
        silent.set()
        runner.register([KERNEL])
        assert len(page.seen) == 2


def test_a_call_is_given_up_when_its_time_is_over_and_the_page_goes_on(hub: Hub) -> None:
    late: list[dict[str, Any]] = []

    def answer(page: FakePage, header: dict[str, Any], blobs: list[memoryview]) -> None:
        if header["type"] == "measure":
            late.append(header)
            return
        for one in late:  # the page answers in order
            page.reply(one, MEASURED)
        late.clear()
        page.reply(header, {"type": "ok"})

    left_s = [0.05, 0.05]
    runner = PageRunner(hub, "fake")
    timely = runner.within(lambda: left_s.pop() if left_s else 0.0)
    with fake_page(hub, answer) as page:
        with pytest.raises(PageError, match="did not answer"):
            timely.measure(KERNEL, None, MeasurePolicy())
        left_s.clear()
        with pytest.raises(PageError, match="The time for this is over"):
            timely.measure(KERNEL, None, MeasurePolicy())
        runner.register([KERNEL])
        assert [header["type"] for header, _ in page.seen] == ["measure", "register"]
