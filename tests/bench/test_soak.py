from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nnjit_studio.bench.llm.soak import PROMPT_TOKENS, soak, soak_markdown
from nnjit_studio.errors import UserError
from nnjit_studio.model import Generated, Generation, PlanPort, Sampling, TensorSpec, Token


class FakeText:
    """Texts of three tokens of 500 ms; the second text has a token that is wrong."""

    def __init__(self, capacity: int = 40) -> None:
        logits = PlanPort(TensorSpec("logits", (1, 1, 50), "f32"), 0)
        self.decoder = Generation(capacity, 8, "ids", "mask", "logits")
        self.current = SimpleNamespace(
            plan=SimpleNamespace(outputs=(logits,), half_cache=False), path=Path("gpt.onnx")
        )
        self.prompts: list[list[int]] = []

    def generate(self, ids: list[int], sampling: Sampling) -> Generator[Token, None, Generated]:
        self.prompts.append(ids)
        for number in (4, 5, 6):
            yield Token(number, 500.0, 0.5)
        return Generated(3, "full", 65536)


class FakeBench:
    def __init__(self, model: FakeText) -> None:
        self.process = self.page = self
        self.model = model
        self.texts = 0

    def native_decoder(self, path: Path, prompt: list[int], half_cache: bool) -> None:
        self.texts += 1

    def native_tokens(self, tokens: list[int]) -> list[tuple[int, float]]:
        other = 9 if self.texts == 2 else 4
        return [(other, 0.5 * (other != 4)), *((t, 0.0) for t in tokens[1:])]

    def connect(self) -> Any:
        return SimpleNamespace(user_agent="fake/1", threads=2)


def test_texts_go_on_until_the_time_is_over_and_all_are_checked() -> None:
    text = FakeText()
    *texts, summary = soak(FakeBench(text), seconds=4)
    assert [t["t_s"] for t in texts] == [1.5, 3.0, 4.5]
    assert [t["check"]["wrong"] for t in texts] == [0, 1, 0]
    assert (summary["texts"], summary["tokens"], summary["wasm_bytes"]) == (3, 9, [65536])
    assert summary["check"] == {"same": 8, "ties": 0, "wrong": 1}
    assert summary["tokens_per_s"]["median"] == pytest.approx(2)
    assert len({tuple(p) for p in text.prompts}) == 3
    assert all(len(p) == PROMPT_TOKENS and 0 <= min(p) <= max(p) < 50 for p in text.prompts)
    section = soak_markdown(summary)
    assert "a long run of gpt.onnx" in section
    assert "8 tokens the same, 0 ties, 1 wrong" in section


def test_a_cache_without_room_for_a_text_is_refused() -> None:
    with pytest.raises(UserError, match="16 slots is too small"):
        next(soak(FakeBench(FakeText(capacity=16)), seconds=1))
