"""A second bundle of ours in the page of `nnjit bench models`, and the table that judges it."""

from __future__ import annotations

import json
import zipfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from nnjit_command import nnjit_here
from scripts import benchmark

from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.peers import models
from nnjit_studio.bench.peers.tables import models_report
from nnjit_studio.model import TensorSpec

ONE = TensorSpec("y", (1,), "f32")


@contextmanager
def _page(message: dict[str, Any], uploads: dict[str, bytes]):
    yield SimpleNamespace(next_message=lambda _: message, uploads=uploads, flags="")


def _row(
    monkeypatch: pytest.MonkeyPatch, folder: Path, times: dict[str, float], baseline: Path | None
) -> dict[str, Any]:
    """The row of a page that took these times, one sample a round."""
    facts = {name: {"threads": 1, "tier": "t", "memory_bytes": 1, "create_ms": 1} for name in times}
    samples = {name: [ms * (1 + i / 1000) for i in range(11)] for name, ms in times.items()}
    message = {"samples_ms": samples, "facts": facts, "user_agent": "b"}
    uploads = {f"{name}-y": np.ones(1, np.float32).tobytes() for name in times}
    monkeypatch.setattr(models, "serve", lambda _: _page(message, uploads))
    monkeypatch.setattr(models, "visit", lambda *_: _page({}, {}))
    (folder / "m.onnx").touch()
    model = models.PreparedModel("m", folder / "m.onnx", (), (ONE,), 0, {})
    options = BenchOptions(folder, peers=("ort",))
    native = {"y": np.full(1, 2, np.float32)}
    return models.compare(model, 1, options, 0, native=native, baseline=baseline)


def test_a_baseline_takes_turns_and_ours_is_a_share_of_its_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bundle = tmp_path / "f32.zip"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("manifest.json", "{}")
    times = {"ours": 3.0, "ort": 6.0, "baseline": 4.0}
    row = _row(monkeypatch, tmp_path, times, bundle)
    assert row["of_baseline"]["median"] == pytest.approx(0.75)
    assert list(row["ratio"]) == ["ort"] and list(row["peers_threads"]) == ["ort"]
    entries = json.loads((tmp_path / "job.json").read_text())["contenders"]
    assert [(e["name"], e["source"]) for e in entries][2:] == [
        ("baseline", "baseline/manifest.json")
    ]
    assert (tmp_path / "baseline/manifest.json").is_file()
    assert row["native_err"] == {"ours": 0.5, "ort": 0.5, "baseline": 0.5}
    told = "0.75 (0.74..0.76)"
    assert models.row_text(row).count(f"of baseline {told}") == 1
    table = models_report(models.document([row], {}, [0.0, 0.0, 0.0])).markdown().splitlines()
    head, line = (next(r for r in table if r.startswith(w)) for w in ("| model", "| m "))
    cells = dict(zip(head.split("|"), line.split("|"), strict=True))
    assert cells[" ours / baseline "].strip() == told
    assert " baseline / ours " not in cells and "wrong" not in line


def test_what_is_no_bundle_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """It ended in a traceback after the model was tuned."""
    for name, data in (("m.onnx", b""), ("b.zip", b"no zip")):
        (tmp_path / name).write_bytes(data)
    words = ["bench", "models", str(tmp_path / "m.onnx"), "--peers", "none"]
    result = nnjit_here(*words, "--baseline", str(tmp_path / "b.zip"), "--json")
    assert result.returncode == 1 and "is not whole" in json.loads(result.stdout)["error"]


def test_without_a_baseline_there_is_no_share(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = _row(monkeypatch, tmp_path, {"ours": 3.0, "ort": 6.0}, None)
    assert row["of_baseline"] is None and row["ratio"]["ort"] == pytest.approx(2.0)


def _cell(share: tuple[float, float, float] | None) -> dict[str, Any]:
    of = dict(zip(("median", "low", "high"), share, strict=True)) if share else None
    three = {"median": 2.0, "low": 1.9, "high": 2.1}
    return {
        "date": "2026-11-29T00:00:00", "cpu": "c", "load": [1.0],
        "ms": {"ours": three, "ort": three},
        "ratio": three, "memory": 0.4, "of_float32": of, "errors": {"ours": 0.0, "ort": 0.0},
        "tuned_s": 0.0,
    }  # fmt: skip


def test_a_format_is_slower_only_where_its_whole_interval_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = benchmark("models/formats")
    page = tmp_path / "page.md"
    page.write_text(f"a\n{script.BEGIN}old\n{script.END}z\n")
    monkeypatch.setattr(script, "PAGE", page)
    monkeypatch.setattr(script, "KEPT", tmp_path / "kept.json")
    script.write_page({"minilm/fp32": _cell(None), "minilm/q4": _cell((1.2, 0.9, 1.3))})
    script.write_page({"minilm/int8/2": _cell((1.2, 1.1, 1.3))})
    text = page.read_text()
    assert text.startswith("a\n") and text.endswith("z\n") and "old" not in text
    one, two = text.split("| model, two threads |")
    assert (
        "| minilm | q4 | 2.00x (1.90 to 2.10) | " in one and " | 1.20 (0.90 to 1.30) | 40% |" in one
    )
    assert "Slower than the same model in float32, by the whole interval: none." in one
    assert "Slower than the same model in float32, by the whole interval: minilm/int8/2." in two
