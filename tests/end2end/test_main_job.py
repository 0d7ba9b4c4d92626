"""The main job on a small model: tuned in the embedded view, remembered, run, exported."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from nnjit_command import SANDBOX, events_until, json_lines, nnjit, nnjit_here

from nnjit_studio.database import KernelDatabase
from nnjit_studio.records.outcomes import COMPARED, is_undecided

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from onnx_models import mlp

pytestmark = pytest.mark.embedded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("main-job")


@pytest.fixture(scope="module")
def model(folder: Path) -> Path:
    return mlp(folder / "mlp.onnx", rows=197, sizes=(63, 131, 77))


@pytest.fixture(scope="module")
def first(model: Path, folder: Path) -> list[dict[str, Any]]:
    """Events of a first session, until every space is exhausted."""
    words = ("--seconds", 1000, "--exhaustive", "--json", "--database", folder / "k.db")
    return json_lines(nnjit("tune", model, *words, *SANDBOX))


def test_events_come_in_order_and_end_with_the_summary(first: list[dict[str, Any]]) -> None:
    names = [e["event"] for e in first]
    assert names[0] == "started"
    assert names[-1] == "summary"
    assert {"space", "compiled", "measured", "round", "model"} <= set(names)
    summary = first[-1]
    assert summary["reason"] == "exhausted"
    assert summary["model_ms"]["before"] > 0
    assert summary["compile_ms"]["p99"] >= summary["compile_ms"]["median"] > 0
    tuned = [w for w in summary["workloads"] if w["rounds"]]
    assert {w["workload"].split("#")[0] for w in tuned} == {
        "matmul:197x63x131:f32+bias+relu",
        "matmul:197x131x77:f32+bias",
    }
    for w in tuned:
        assert w["candidates"] >= 10
        assert w["gflops"]["after"] > 0


def test_every_measured_kernel_was_right(first: list[dict[str, Any]]) -> None:
    measured = [e for e in first if e["event"] == "measured"]
    assert measured
    assert [e for e in measured if e["state"] in ("wrong", "failed", "impossible")] == []
    assert all(e["error_ratio"] <= 1 for e in measured if e["state"] in COMPARED)


def test_a_second_session_measures_only_what_noise_hid(
    first: list[dict[str, Any]], model: Path, folder: Path
) -> None:
    """On a quiet machine that is nothing, and the session needs no round."""
    events = json_lines(
        nnjit("tune", model, "--seconds", 60, "--json", "--database", folder / "k.db", *SANDBOX)
    )
    hidden = {
        (e["workload"], e["candidate"])
        for e in first
        if e["event"] == "measured" and is_undecided(e["state"], e["speedup"], e["speedup_high"])
    }
    again = {(e["workload"], e["candidate"]) for e in events if e["event"] == "round"}
    assert again <= hidden
    spaces = [e for e in events if e["event"] == "space"]
    assert spaces
    for space in spaces:
        left = sum(workload == space["workload"] for workload, _ in hidden)
        assert space["known"] >= len(space["candidates"]) - left
    winners = {e["workload"]: e["candidate"] for e in first if e["event"] == "swapped"}
    stored = {e["workload"]: e["candidate"] for e in events if e.get("from_database")}
    assert stored == winners


@pytest.fixture(scope="module")
def killed(model: Path, folder: Path) -> list[dict[str, Any]]:
    """Events of another cold session, until it was killed after its sixth round."""

    def six_rounds(events: list[dict[str, Any]]) -> bool:
        return sum(e["event"] == "round" for e in events) == 6

    words = ("--seconds", 1000, "--json", "--database", folder / "killed.db")
    events, code = events_until(six_rounds, "tune", model, *words, *SANDBOX, how=signal.SIGKILL)
    assert code == -signal.SIGKILL
    return events


def test_cold_sessions_begin_alike(
    first: list[dict[str, Any]], killed: list[dict[str, Any]]
) -> None:
    """What follows the first results depends on them; up to there nothing may differ."""

    def begun(events: list[dict[str, Any]]) -> tuple[object, ...]:
        spaces = [(e["workload"], e["candidates"]) for e in events if e["event"] == "space"]
        rounds = [(e["workload"], e["candidate"]) for e in events if e["event"] == "round"]
        swept = list(dict.fromkeys(workload for workload, _ in rounds))
        return events[0]["workloads"], spaces, rounds[0], swept

    assert begun(killed) == begun(first)


def test_run_equals_onnxruntime(first: list[dict[str, Any]], model: Path, folder: Path) -> None:
    x = np.random.default_rng(7).standard_normal((197, 63)).astype(np.float32)
    np.savez(folder / "in.npz", x=x)
    result = nnjit(
        "run", model, "--inputs", folder / "in.npz", "--outputs", folder / "out.npz",
        "--json", "--database", folder / "k.db", *SANDBOX,
    )  # fmt: skip
    (reply,) = json_lines(result)
    assert reply["outputs"] == {"y": [197, 77]}
    expected = onnxruntime.InferenceSession(str(model)).run(None, {"x": x})[0]
    with np.load(folder / "out.npz") as arrays:
        np.testing.assert_allclose(arrays["y"], expected, rtol=1e-4, atol=1e-6)


def test_profile_tells_every_step(first: list[dict[str, Any]], model: Path, folder: Path) -> None:
    trace = folder / "trace.json"
    (profile,) = json_lines(
        nnjit("profile", model, "--trace", trace, "--json", "--database", folder / "k.db", *SANDBOX)
    )
    assert [s["op"] for s in profile["steps"]] == ["matmul+bias+relu", "matmul+bias", "softmax"]
    assert profile["warm"]["median_ms"] > 0
    assert sum(s["share"] for s in profile["steps"]) == pytest.approx(1.0)
    events = json.loads(trace.read_text())["traceEvents"]
    kernels = [e["name"] for e in events if e.get("cat") == "kernel"]
    assert kernels == [s["op"] for s in profile["steps"]]
    assert all(s["ms"] > 0 for s in profile["steps"])  # however short
    assert [s["source"] for s in profile["steps"]] == [
        ["first", "first_bias", "relu"], ["second", "second_bias"], ["softmax"],
    ]  # fmt: skip
    forecast = profile["memory"]["forecast"]
    assert profile["memory"]["wasm_bytes"] == forecast["wasm_bytes"]
    (alone,) = json_lines(nnjit_here("profile", model, "--forecast", "--json"))
    assert {name: alone[name] for name in forecast} == forecast


def test_every_tensor_equals_onnxruntime(
    first: list[dict[str, Any]], model: Path, folder: Path
) -> None:
    # The database is busy: what only reads it does not mind.
    with KernelDatabase.open(folder / "k.db"):
        (diff,) = json_lines(
            nnjit("diff", model, "--json", "--database", folder / "k.db", *SANDBOX)
        )
    assert {t["tensor"] for t in diff["tensors"]} == {"r1", "a2", "y"}
    assert diff["bad"] == 0
    assert {m["tensor"] for m in diff["missing"]} == {"m1", "a1", "m2"}


def test_sigkill_while_tuning_loses_nothing(killed: list[dict[str, Any]], folder: Path) -> None:
    finished = [e for e in killed if e["event"] == "round"]
    with KernelDatabase.open(folder / "killed.db") as opened:
        assert opened.integrity() == "ok"
        stored = {(r.workload, r.settings) for r in opened.all_records()}
    assert {(e["workload"], e["candidate"]) for e in finished} <= stored
