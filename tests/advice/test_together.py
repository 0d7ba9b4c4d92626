"""Rows that are faster alone are measured together; accepted errors are remembered per file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from test_records import ASKS, FAST, SLOW, WRONG

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.records import MAX_ERROR
from nnjit_studio.advice.store import FILE, accept_error, accepted_error
from nnjit_studio.advice.together import together
from nnjit_studio.model.recipe import Recipe

THREADS = replace(ASKS, apply=Apply(threads=4, headers={"a": "b"}))
HALF = replace(FAST, apply=Apply(half_weights=True))


def test_together_are_options_of_what_is_faster() -> None:
    whole = together([THREADS, HALF, SLOW, WRONG])
    assert whole and whole.apply == Apply(half_weights=True, threads=4, headers={"a": "b"})
    assert whole.asks == ASKS.asks and "fast" in whole.title and "slow" not in whole.title


def test_one_alone_is_no_row_of_its_own() -> None:
    assert together([HALF, SLOW, WRONG]) is None
    file = replace(THREADS, apply=Apply(recipe=Recipe("4-bit")))
    assert together([HALF, file]) is None


def test_the_accepted_error_is_the_models_own(tmp_path: Path) -> None:
    one, other = tmp_path / "a.onnx", tmp_path / "b.onnx"
    assert accepted_error(tmp_path, one) == MAX_ERROR
    accept_error(tmp_path, one, 0.5)
    accept_error(tmp_path, one, 0.25)
    assert accepted_error(tmp_path, one) == 0.25 and accepted_error(tmp_path, other) == MAX_ERROR
    (tmp_path / FILE).write_text("[3]")
    assert accepted_error(tmp_path, one) == MAX_ERROR
