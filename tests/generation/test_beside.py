"""What lies beside a decoder: tokens that end a text, and its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.generation.beside import Spelling, Tokenizer, stop_tokens


@pytest.mark.parametrize(
    ("name", "config", "wanted"),
    [
        ("genai_config.json", {"model": {"eos_token_id": [5, 7]}}, (5, 7)),
        ("generation_config.json", {"eos_token_id": 2}, (2,)),
        ("config.json", {"eos_token_id": None}, ()),
        ("config.json", [], ()),
    ],
)
def test_tokens_that_end_a_text(
    tmp_path: Path, name: str, config: Any, wanted: tuple[int, ...]
) -> None:
    (tmp_path / name).write_text(json.dumps(config))
    assert stop_tokens(tmp_path / "model.onnx") == wanted
    assert stop_tokens(tmp_path / "onnx" / "model.onnx") == wanted


def test_what_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UserError, match="is no JSON"):
        stop_tokens(tmp_path / "model.onnx")
    with pytest.raises(UserError, match=r"no tokenizer\.json next to 'model\.onnx'"):
        Tokenizer(tmp_path / "model.onnx")


def test_letters_of_several_tokens_come_whole() -> None:
    class Bytes:
        def decode(self, ids: list[int]) -> str:
            return bytes(ids).decode("utf-8", "replace")

    spelling = Spelling(Bytes())  # type: ignore[arg-type]
    assert [spelling.add(b) for b in "aé!".encode()] == ["a", "", "é", "!"]
    assert spelling.text == "aé!"
