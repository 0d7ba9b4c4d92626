"""What a verdict says, and what it keeps to itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from verdicts import (
    ALONE,
    BEGUN,
    BUSY,
    FASTER,
    FEW,
    MEASURING,
    NO_PEER,
    REFUSED,
    ROUGH,
    SAME,
    STATES,
    TURBO,
)

from nnjit_studio.verdict import store
from nnjit_studio.verdict.case import link, shipped_bytes
from nnjit_studio.verdict.figures import median_interval, paired_ratio
from nnjit_studio.verdict.result import Row, Verdict, from_json
from nnjit_studio.verdict.text import cells, explanation, headline, milliseconds, table


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    trials = [median_interval(rng.lognormal(0, 0.4, 24)) for _ in range(1000)]
    assert np.mean([found.low <= 1 <= found.high for found in trials]) >= 0.94
    assert min(found.low for found in trials) > 0.3, "it is no mere range"


def test_few_samples_give_their_range_and_no_ratio() -> None:
    found = median_interval([3.0, 1.0, 2.0])
    assert (found.low, found.median, found.high) == (1.0, 2.0, 3.0)
    assert paired_ratio([1.0] * 10, [2.0] * 10) is None


def test_a_drift_that_meets_both_halves_of_a_pair_cancels() -> None:
    drift = np.linspace(1, 3, 24)
    found = paired_ratio(list(10 * drift), list(20 * drift))
    assert found is not None and found.low == pytest.approx(2, abs=0.1)
    assert found.high == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("state", STATES)
def test_states(state: str) -> None:
    verdict = STATES[state]
    assert verdict.state == state
    assert from_json(json.loads(json.dumps(verdict.to_json()))) == verdict
    assert explanation(verdict) and headline(verdict) in table(verdict)


def test_a_ratio_is_stated_only_where_it_may_be() -> None:
    assert headline(FASTER) == "1.99x as fast as ONNX Runtime Web"
    assert headline(ROUGH) == "2.0x as fast as ONNX Runtime Web" and "80%" in explanation(ROUGH)
    assert headline(BUSY) == "About 60 ms [59..60]" and BUSY.to_json()["ratio"] == {"ort": None}
    assert explanation(BUSY).endswith("figures are rough. Below 60% no ratio is told.")
    assert headline(FEW) == "About 60 ms [59..60]", "no figure without its interval"
    assert headline(SAME) == "Not told apart" and not SAME.to_json()["told_apart"]
    assert headline(MEASURING) == "2.0x so far"
    assert headline(BEGUN) == "Measuring"
    assert "x" not in headline(STATES["different"]).split()[0]


def test_little_memory_is_told_in_kibibytes() -> None:
    row = FASTER.rows[0]
    assert [cells(replace(row, memory_mib=m))[2] for m in (0.0625, 16.0)] == ["64 KiB", "16 MiB"]
    sizes = [cells(replace(row, shipped_bytes=n))[4] for n in (62_000, 3_700_000)]
    assert sizes == ["60.5 KiB", "3.53 MiB"]  # in the units of the memory beside it


def test_the_document_has_what_scripts_rely_on() -> None:
    document = FASTER.to_json()
    keys = {"who", "ms", "memory_mib", "cold_ms", "shipped_bytes", "max_rel_err"}
    assert all(keys <= set(row) for row in document["rows"])
    assert document["rows"][0]["ms"] == {"median": 118.6, "low": 117.1, "high": 120.3}
    assert document["ratio"] == {"ort": 1.99} and document["told_apart"] is True


def test_without_a_peer_it_is_said_how_to_get_one() -> None:
    assert headline(NO_PEER) == "59.6 ms [58.9..60.4]"
    assert "nnjit peers install" in explanation(NO_PEER)
    assert "Foo(1)" in explanation(REFUSED)


def test_where_ours_is_absent_a_turbo_module_is_compared_with_the_peers_own() -> None:
    assert ALONE.state == "peer alone" and headline(ALONE) == "119 ms"
    assert TURBO.state == "faster" and headline(TURBO) == "1.50x as fast as ONNX Runtime Web"
    for verdict in (ALONE, TURBO):
        assert table(verdict).endswith(f"Ours is absent: {verdict.absent}")
        document = verdict.to_json()
        assert not document["ok"] and document["absent"] and from_json(document) == verdict
    earlier = {k: v for k, v in FASTER.to_json().items() if k != "absent"}
    assert from_json(earlier) == FASTER


def test_untuned_counts_where_nothing_is_tuned() -> None:
    untuned = replace(FASTER, rows=FASTER.rows[:2])
    assert untuned.ours is untuned.rows[1] and untuned.state == "faster"


def test_times_have_fitting_units() -> None:
    assert [milliseconds(ms) for ms in (0.0602, 0.123, 59.62, 1234.0)] == [
        "60.2 µs",
        "0.123 ms",
        "59.6 ms",
        "1230 ms",
    ]


def test_a_cold_start_on_a_busy_machine_has_two_digits() -> None:
    row = Row("ort", cold_ms=2984.0)
    assert cells(row)[3] == "2.98 s" and cells(row, rough=True)[3] == "3 s"


def test_the_last_verdict_of_each_model_is_kept(tmp_path: Path) -> None:
    tmp_path = tmp_path / "of a first run"
    other = replace(FASTER, path="/models/other.onnx")
    for verdict in (FASTER, other, BUSY):
        store.remember(tmp_path, verdict)
    assert store.last_verdicts(tmp_path) == [BUSY, other]
    assert store.verdict_of(tmp_path, Path("/models/other.onnx")) == other
    assert store.usual_ms([BUSY, replace(other, sentinel_ms=3.0)]) == 3.0
    (tmp_path / store.FILE).write_text('[{"model": 1}]')
    assert store.last_verdicts(tmp_path) == []


def test_shipped_bytes_leave_out_weights_and_scaffolding(tmp_path: Path) -> None:
    file = tmp_path / "engine.js"
    file.write_text("export {};" * 100)
    weights = tmp_path / "weights.bin"
    weights.write_bytes(bytes(10**6))
    once = [("sdk/engine.js", file)]
    served = [*once, *once, ("files/tuned/weights.bin", weights), ("bench/models.js", file)]
    assert 0 < shipped_bytes(served) == shipped_bytes(once) < 100


def test_verdicts_of_another_time_are_no_verdicts() -> None:
    with pytest.raises((KeyError, TypeError)):
        from_json({"rows": []})
    assert isinstance(Verdict("m", "/m", ()).to_json()["state"], str)


def test_a_linked_file_is_given_by_what_it_leads_to(tmp_path: Path) -> None:
    """A link to a file elsewhere, as in a cache of downloads, would lead nowhere in the page's."""
    held, name, folder = tmp_path / "held", tmp_path / "model.onnx", tmp_path / "page" / "deep"
    held.write_bytes(b"model")
    name.symlink_to("held")
    folder.mkdir(parents=True)
    link(name, folder / "model.onnx")
    assert not (folder / "model.onnx").is_symlink()
    assert (folder / "model.onnx").read_bytes() == b"model"
