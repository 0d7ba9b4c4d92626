"""Texts of a decoder's file beside a peer: its parts by their role, and what is said of them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from decoder_models import decoder
from grouped_models import grouped

from nnjit_studio.bench.llm.file import (
    FileRun,
    document,
    facts_of,
    file_report,
    written_texts,
)
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.samples.zoo import write_model

RUN = FileRun(prompt_tokens=10, tokens=5, rounds=11, threads=1, seconds=0)


def test_inputs_by_their_role(tmp_path: Path) -> None:
    facts = facts_of(grouped(tmp_path / "m.onnx", half=True))
    assert facts["pasts"][0] == {
        "input": "past_key_values.0.key",
        "output": "present.0.key",
        "dims": [1, 2, 0, 16],
    }
    assert (facts["positions"], facts["branch"], facts["logits"]) == ("", "", "logits")
    assert facts["types"]["input_ids"] == "int64"
    assert facts["types"]["past_key_values.0.key"] == "float16"
    decoder(tmp_path / "d.onnx")
    exported = facts_of(tmp_path / "d.onnx")
    assert exported["positions"] == "position_ids"
    assert exported["types"][exported["pasts"][0]["input"]] == "float32"


def test_files_without_an_open_past_are_refused(tmp_path: Path) -> None:
    step = write_model("gpt2-decode", tmp_path / "step.onnx", 30, small=True)
    with pytest.raises(UserError, match="a past of fixed size"):
        facts_of(step)
    vision = write_model("vit-tiny", tmp_path / "v.onnx", None, small=True)
    with pytest.raises(ModelError, match="no past keys"):
        facts_of(vision)


def message(theirs: list[int]) -> dict[str, Any]:
    def text(ids: list[int], ms: float) -> dict[str, Any]:
        return {"ids": ids, "margins": [0.5] * 5, "prompt_ms": ms, "decode_ms": 2 * ms}

    facts = {"memory_bytes": 2**20, "threads": 1}
    return {
        "texts": {
            "ours": [text([1, 2, 3, 4, 5], 10.0 + i / 10) for i in range(11)],
            "ort": [text(theirs, 20.0 + i / 10) for i in range(11)],
        },
        "facts": {"ours": facts, "ort": facts},
        "steps": [
            {"workload": "multiply:64:f32#1", "ms": 0.25},
            {"workload": "matmul_4bit:1x64x64:f32+add#2", "ms": 1.0},
            {"workload": "multiply:64:f32#1", "ms": 0.75},
            {"workload": "take:8:f32#3", "ms": 0.5},
        ],
        "user_agent": "a browser",
    }


def test_rates_ratios_and_equal_tokens() -> None:
    check = {"same": 5, "ties": 0, "wrong": 0}
    found = document("m.onnx", RUN, message([1, 2, 9, 4, 5]), {"ours": check, "ort": check})
    assert found["equal_tokens"] == 2
    rate = found["tokens_per_s"]["prompt"]["ours"]
    assert rate["median"] == pytest.approx(1e4 / 10.5)
    assert rate["low"] < rate["median"] < rate["high"]
    assert found["tokens_per_s"]["decode"]["ours"]["median"] == pytest.approx(4e3 / 21.0)
    assert found["ratio"]["decode"]["low"] < 1.95 < found["ratio"]["decode"]["high"]
    text = file_report(found).text()
    assert "Equal tokens from the first on: 2 of 5." in text
    assert "ANOTHER" not in text
    assert "intervals" in file_report(found).markdown()
    assert [row["steps"] for row in found["steps"]] == [2, 1, 1]
    lines = [line.split() for line in text.splitlines()]
    assert ["multiply:64:f32", "2", "500.0", "40.0%"] in lines
    assert "Our decode plan, 4 steps, each by itself: 2.50 ms in all." in text


def test_a_text_that_changes_is_told() -> None:
    given = message([1, 2, 3, 4, 5])
    given["texts"]["ort"][4]["ids"] = [1, 1, 1, 1, 1]
    check = {"same": 5, "ties": 0, "wrong": 0}
    found = document("m.onnx", RUN, given, {"ours": check, "ort": check})
    assert found["same_each_round"] == {"ours": True, "ort": False}
    assert "ort made ANOTHER text" in file_report(found).text()


def test_each_text_is_told_and_the_last_report_is_the_result() -> None:
    texts = [{"type": "text", "name": "ours", "count": i, "ms": 1500.0} for i in (0, 1)]
    told: list[str] = []
    waiting = iter([*texts, {"type": "row"}])
    server = SimpleNamespace(next_message=lambda timeout_s: next(waiting))
    assert written_texts(server, lambda: False, told.append) == {"type": "row"}
    assert told == ["ours: a first text, 1.5 s", "ours: text 1, 1.5 s"]


def test_a_stop_ends_the_texts_behind_the_one_at_hand() -> None:
    waiting = iter([{"type": "text", "name": "ort", "count": 1, "ms": 2000.0}])
    server = SimpleNamespace(next_message=lambda timeout_s: next(waiting))
    with pytest.raises(UserError, match="cancelled"):
        written_texts(server, lambda: True, lambda text: None)
