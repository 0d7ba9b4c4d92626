"""What a bundle's page asks for and draws."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnjit_studio.bundle.demo import decide, read_overrides
from nnjit_studio.bundle.manifest import Manifest
from nnjit_studio.errors import BundleError, UserError
from nnjit_studio.model import TensorSpec
from nnjit_studio.workbench.jobs.page import page_parts


def f32(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, shape, "f32")


def i64(name: str, *shape: int) -> TensorSpec:
    return TensorSpec(name, shape, "i64")


BERT = [i64("input_ids", 1, 32), i64("attention_mask", 1, 32), i64("token_type_ids", 1, 32)]
PICTURE = [f32("images", 1, 3, 64, 64)]


@pytest.mark.parametrize(
    ("inputs", "outputs", "tokenizer", "taken", "drawn"),
    [
        (BERT, [f32("last_hidden_state", 1, 32, 384), f32("sentence_embedding", 1, 384)], True,
         "text mask types", "numbers similarity"),
        (BERT, [f32("logits", 1, 2)], True, "text mask types", "labels"),
        (BERT, [f32("logits", 1, 32, 30522)], True, "text mask types", "text"),
        (BERT, [f32("logits", 1, 2)], False, "array array array", "numbers"),
        (PICTURE, [f32("logits", 1, 1000)], False, "picture", "labels"),
        ([f32("x", 1, 64, 64, 3)], [f32("output0", 1, 84, 8400)], False, "picture", "boxes"),
        (PICTURE, [f32("scores", 1, 100, 91), f32("pred_boxes", 1, 100, 4)], False, "picture",
         "numbers boxes"),
        (PICTURE, [f32("y", 1, 3, 128, 128)], False, "picture", "picture"),
        (PICTURE, [f32("image_embeds", 1, 512)], False, "picture", "similarity"),
        ([f32("waveform", 1, 16000)], [f32("y", 1, 35)], False, "sound", "labels"),
        ([f32("noisy", 1, 1, 16000)], [f32("clean", 1, 1, 16000)], False, "sound", "waveform"),
        ([f32("a", 3, 4), f32("n")], [f32("y", 3, 4), i64("i", 3)], True, "array array",
         "numbers numbers"),
    ],
)  # fmt: skip
def test_kinds_follow_from_the_signature(
    inputs: list[TensorSpec],
    outputs: list[TensorSpec],
    tokenizer: bool,
    taken: str,
    drawn: str,
) -> None:
    demo = decide(inputs, outputs, tokenizer)
    assert " ".join(port.kind for port in demo.inputs) == taken
    assert " ".join(port.kind for port in demo.outputs) == drawn


def test_kinds_can_be_given() -> None:
    outputs = [f32("y", 1, 10)]
    demo = decide(PICTURE, outputs, False, read_overrides(["images=array", "y=similarity"]))
    assert [p.kind for p in (*demo.inputs, *demo.outputs)] == ["array", "similarity"]
    with pytest.raises(UserError, match="'y' cannot be shown as 'picture': a picture has four"):
        decide(PICTURE, outputs, False, {"y": "picture"})
    with pytest.raises(UserError, match="known are text, mask"):
        decide(PICTURE, outputs, False, {"images": "labels"})
    with pytest.raises(UserError, match="no input or output 'z'"):
        decide(PICTURE, outputs, False, {"z": "labels"})
    with pytest.raises(UserError, match="NAME=KIND"):
        read_overrides(["picture"])


def test_what_lies_beside_the_model_goes_with_the_page(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    (tmp_path / "config.json").write_text(json.dumps({"id2label": {"0": "no", "1": "yes"}}))
    outputs = [f32("logits", 1, 2)]
    assert page_parts(model, BERT, outputs).tokenizer == b""
    with pytest.raises(UserError, match=r"no tokenizer\.json lies next to m\.onnx"):
        page_parts(model, BERT, outputs, {"input_ids": "text"})
    (tmp_path / "tokenizer.json").write_text("{}")
    found = page_parts(model, BERT, outputs)
    assert (found.tokenizer, found.labels, found.demo.takes_text) == (b"{}", b"no\nyes\n", True)
    (tmp_path / "labels.txt").write_text("never\nalways\n")
    assert page_parts(model, BERT, outputs).labels == b"never\nalways\n"
    assert page_parts(model, PICTURE, outputs).tokenizer == b""  # nobody asks for it


def test_a_kind_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    file = {"file": "a", "sha256": "0" * 64, "nbytes": 0}
    data = {"format": "nnjit-bundle", "version": 1, "name": "m", "generator": "", "created": ""}
    data |= {"plan": file, "weights": file, "kernels": [], "engine": [], "tuned_on": {}}
    data |= {"inputs": [], "outputs": []}
    assert Manifest.from_json(data).demo.inputs == ()
    demo = {"inputs": [{"name": "x", "kind": "smell"}], "outputs": []}
    with pytest.raises(BundleError, match="unknown kind 'smell'"):
        Manifest.from_json(data | {"demo": demo})
