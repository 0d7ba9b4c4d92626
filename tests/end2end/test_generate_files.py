"""Text of files as onnxruntime-genai's builder writes them, with what lies beside them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from test_generate import generate, place, texts_of

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from grouped_models import VOCABULARY, grouped

pytestmark = pytest.mark.embedded

PROMPT = [(7 * i * i + 3 * i + 5) % VOCABULARY for i in range(45)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A text of 4-bit weights behind a prompt of three chunks; as a bundle too."""
    folder = tmp_path_factory.mktemp("packed")
    grouped(folder / "model.onnx", bits=4)
    ids, summary = generate(
        folder, folder / "model.onnx", "--ids", ",".join(map(str, PROMPT)), "--tokens", 64,
        "--prefill-rows", 16, "--check", "--bundle", folder / "text.zip",
    )  # fmt: skip
    assert (summary["check"]["wrong"], summary["capacity"]) == (0, 128)
    assert len(ids) == 64
    assert len(set(ids)) > 9, "a text of few tokens would show little"
    return folder, ids


@pytest.mark.chromium
def test_the_bundle_of_a_file_makes_its_text(packed: tuple[Path, list[int]]) -> None:
    folder, ids = packed
    place(folder / "text.zip", folder / "site", {"prompt": PROMPT})
    (((*made,),),) = texts_of(folder / "site")
    assert made[:64] == ids


def test_a_window_a_full_cache_and_the_words_beside_the_model(tmp_path: Path) -> None:
    """The last chunk does not fit behind the others, so a part is read again."""
    tokenizers = pytest.importorskip("tokenizers")
    words = {f"w{i}": i for i in range(VOCABULARY)}
    library = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    library.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    library.save(str(tmp_path / "tokenizer.json"))
    model = grouped(tmp_path / "model.onnx", window=7)
    prompt = " ".join(f"w{i}" for i in PROMPT)
    arguments = (
        model, "--prompt", prompt, "--tokens", 64, "--prefill-rows", 16, "--capacity", 46,
        "--check",
    )  # fmt: skip
    ids, summary = generate(tmp_path, *arguments)
    assert (summary["prompt_tokens"], summary["reason"]) == (len(PROMPT), "full")
    assert (summary["check"]["wrong"], len(ids)) == (0, 2)
    assert summary["text"].split() == [f"w{i}" for i in ids]
    (tmp_path / "genai_config.json").write_text(json.dumps({"model": {"eos_token_id": ids[0]}}))
    stopped, summary = generate(tmp_path, *arguments)
    assert (stopped, summary["reason"]) == (ids[:1], "stop")
