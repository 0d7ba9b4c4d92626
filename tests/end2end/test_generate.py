"""Text generation: the same tokens as native ONNX Runtime, in the view and from a bundle."""

from __future__ import annotations

import json
import sys
import zipfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from nnjit_command import LONG_S, SANDBOX, json_lines, nnjit, nnjit_here
from static_server import serve

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from decoder_models import POSITIONS, decoder

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.samples.zoo import write_model

pytestmark = pytest.mark.embedded

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
PAGE = """<!doctype html><meta charset="utf-8"><script type="module" src="check.js"></script>"""
SCRIPT = """
import { InferenceSession } from "./nnjit.js";
const report = (body) => fetch("/", { method: "POST", body: JSON.stringify(body) });
try {
  const session = await InferenceSession.create("manifest.json", { numThreads: 2 });
  const texts = [];
  for (const { prompt, ...options } of await (await fetch("wanted.json")).json()) {
    texts.push([]);
    for await (const { id } of session.generate(prompt, options)) texts.at(-1).push(id);
  }
  const { threads, tier } = session;
  await report({ texts, isolated: crossOriginIsolated, threads, tier });
} catch (e) {
  await report({ error: String(e.stack || e) });
}
"""


def generate(folder: Path, *arguments: Any) -> tuple[list[int], dict[str, Any]]:
    result = nnjit("generate", *arguments, "--database", folder / "k.db", "--json", *SANDBOX)
    *tokens, summary = json_lines(result)
    made = [t for t in tokens if t["event"] == "token"]
    assert [t["index"] for t in made] == list(range(len(made)))
    assert all(t["ms"] >= 0 for t in made)  # a tiny model's token may fall between two clock steps
    assert sum(t["ms"] for t in made) > 0
    return [t["id"] for t in made], summary


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generate")
    decoder(folder / "model.onnx")
    return folder


@pytest.fixture(scope="module")
def text(folder: Path) -> list[int]:
    """A prompt longer than the prefill, until the cache is full; tuned, and as a bundle too."""
    ids, summary = generate(
        folder, folder / "model.onnx", "--ids", ",".join(map(str, PROMPT)), "--tokens", 1000,
        "--prefill-rows", 6, "--threads", 2, "--tune", 1, "--bundle", folder / "text.zip",
        "--check",
    )  # fmt: skip
    assert len(ids) == POSITIONS - len(PROMPT) + 1 == summary["tokens"]
    assert (summary["reason"], summary["capacity"]) == ("full", POSITIONS)
    check = summary["check"]
    assert check["wrong"] == 0
    assert check["same"] + check["ties"] == len(ids)
    assert summary["tokens_per_s"] > 0
    return ids


def test_a_full_cache_of_tokens_is_native(text: list[int]) -> None:
    assert len(set(text)) > 3, "a text of one token would show nothing"


def test_a_prompt_read_token_by_token_gives_the_same_text(folder: Path, text: list[int]) -> None:
    ids, summary = generate(
        folder, folder / "model.onnx", "--ids", ",".join(map(str, PROMPT)), "--tokens", 9,
        "--prefill-rows", 1, "--capacity", 30,
    )  # fmt: skip
    assert ids == text[:9]
    assert (summary["reason"], summary["capacity"]) == ("length", 30)


def test_a_fixed_decoder_with_its_prefill(tmp_path: Path) -> None:
    step = write_model("gpt2-decode", tmp_path / "step.onnx", 30, small=True)
    prompt = write_model("gpt2-prefill", tmp_path / "prompt.onnx", 6, small=True)
    ids = ("--ids", "7,8,9", "--tokens", 100, "--check")
    _, summary = generate(tmp_path, step, "--prefill", prompt, *ids)
    assert (summary["tokens"], summary["check"]["wrong"]) == (28, 0)


def place(bundle: Path, site: Path, *wanted: dict[str, Any]) -> None:
    """A bundle with a page that makes these texts, each a prompt and its options, one by one."""
    with zipfile.ZipFile(bundle) as z:
        z.extractall(site)
    (site / "check.html").write_text(PAGE)
    (site / "check.js").write_text(SCRIPT)
    (site / "wanted.json").write_text(json.dumps(wanted))


def texts_of(*sites: Path) -> list[list[list[int]]]:
    """What their pages made, in one browser; the first one is isolated, for threads."""
    with ExitStack() as stack:
        served = [stack.enter_context(serve(site, site == sites[0])) for site in sites]
        pages = [f"{url}/check.html" for url, _ in served]
        for site, following in zip(sites, pages[1:], strict=False):
            with (site / "check.js").open("a") as script:
                script.write(f"location.href = {json.dumps(following)};")
        stack.enter_context(browsers.launch(browsers.find("chromium"), pages[0], bool(SANDBOX)))
        told = [reports.get(timeout=LONG_S) for _, reports in served]
    assert all("texts" in each for each in told), told
    assert [each["isolated"] for each in told] == [site == sites[0] for site in sites]
    assert [each["threads"] for each in told] == [2, 1][: len(sites)]
    assert {each["tier"] for each in told} == {"relaxed-simd"}
    return [each["texts"] for each in told]


@pytest.mark.chromium
def test_the_bundle_makes_the_same_text_and_draws_by_the_seed(
    folder: Path, text: list[int]
) -> None:
    drawn = {"prompt": [1, 2], "topK": 20, "temperature": 3, "maxTokens": 20}
    seeds = [drawn | {"seed": seed} for seed in (1, 1, 2)]
    sites = folder / "isolated", folder / "plain"
    place(folder / "text.zip", sites[0], {"prompt": PROMPT}, *seeds)
    place(folder / "text.zip", sites[1], {"prompt": PROMPT})
    (made, one, again, other), (plain,) = texts_of(*sites)
    assert made == plain == text
    options = ("--top-k", 20, "--temperature", 3, "--seed", 1, "--tokens", 20)
    ids, _ = generate(folder, folder / "model.onnx", "--ids", "1,2", *options)
    assert ids == one == again != other


def test_errors_are_one_sentence(folder: Path, tmp_path: Path) -> None:
    def error(*arguments: Any, run: Any = nnjit_here) -> str:
        result = run("generate", *arguments, "--database", tmp_path / "k.db", "--json", *SANDBOX)
        assert result.returncode == 1
        return str(json.loads(result.stdout.splitlines()[-1])["error"])

    model = folder / "model.onnx"
    assert "has 49 tokens" in error(model, "--ids", ",".join(["1"] * 49), run=nnjit)
    assert "given once" in error(model)
