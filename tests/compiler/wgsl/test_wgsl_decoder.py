from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from wgsl_harness import run_document

from nnjit_studio.bench.llm.decoder import fill
from nnjit_studio.bench.llm.decoder.attention import split_attention
from nnjit_studio.bench.llm.decoder.config import PREFILL, TINY, LlamaConfig, checked
from nnjit_studio.bench.llm.decoder.plan import (
    ALIGNMENT,
    DecoderPlan,
    Step,
    decoder_plan,
    settings,
    weights_of,
)
from nnjit_studio.bench.llm.decoder.reference import Reference, rope_table
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument
from nnjit_studio.errors import UserError

PROMPT = [1, 2, 3, 4, 5]


def run_plan(plan: DecoderPlan, prompt: list[int], tokens: int, prefills: int = 0) -> list[int]:
    """One document of all dispatches of all tokens, as the page queues them."""
    initial: list[bytes | int] = []
    weights = weights_of(plan)
    names = {b.name: f"a{i}" for i, b in enumerate(plan.buffers)}
    for b in plan.buffers:
        blob = weights.get(b.name) or bytes(b.nbytes)
        if b.kind == "rope":
            blob = rope_table(plan.config).tobytes()
        elif b.name == "tokens":
            blob = np.array(prompt, np.uint32).tobytes().ljust(b.nbytes, b"\0")
        elif b.name == "state":
            blob = np.array([0, len(prompt), 0, 0], np.uint32).tobytes()
        initial.append(blob)

    def dispatches(steps: tuple[Step, ...]) -> tuple[Dispatch, ...]:
        found = []
        for step in steps:
            made = plan.kernels[step.kernel][0].dispatch
            bindings = tuple(names[step.names.get(name, name)] for name in made.bindings)
            found.append(replace(made, bindings=bindings))
        return tuple(found)

    singles = len(prompt) - prefills * PREFILL + tokens - 1
    document = dispatches(plan.prefill) * prefills + dispatches(plan.steps) * singles
    after = run_document(KernelDocument(document), initial)
    found = np.frombuffer(after[int(names["tokens"][1:])], np.uint32)
    return [int(t) for t in found[: len(prompt) + tokens]]


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        (TINY, 24),
        (replace(TINY, width=128, heads=1, hidden=160, splits=1, vocabulary=64, seed=2), 12),
        (replace(TINY, width=192, heads=6, splits=3, vocabulary=160, seed=4), 12),
    ],
    ids=["tiny", "one head", "three splits"],
)
def test_the_text_is_the_references(config: LlamaConfig, tokens: int) -> None:
    plan = decoder_plan(checked(config))
    reference = Reference(config, weights_of(plan))
    wanted, margin = reference.generate(PROMPT, tokens)
    assert margin > 2e-4, "too close to call: choose another seed"
    assert run_plan(plan, PROMPT, tokens) == [*PROMPT, *wanted]


@pytest.mark.parametrize("prefills", [1, 2])
def test_a_prompt_read_at_once_is_the_same_as_token_by_token(prefills: int) -> None:
    prompt = [3 * i % TINY.vocabulary for i in range(20)]
    plan = decoder_plan(TINY)
    reference = Reference(TINY, weights_of(plan))
    wanted, margin = reference.generate(prompt, 8)
    assert margin > 2e-4, "too close to call: choose another prompt"
    assert run_plan(plan, prompt, 8, prefills) == [*prompt, *wanted]


@pytest.mark.parametrize("count", [1, 3, 130, 300])
@pytest.mark.parametrize(("head", "splits"), [(32, 4), (128, 3)])
def test_attention_over_several_tiles(count: int, head: int, splits: int) -> None:
    c = LlamaConfig(width=2 * head, heads=2, context=320, splits=splits)
    rng = np.random.default_rng(count)
    q = rng.normal(size=(2, head)).astype(np.float32)
    cache = rng.normal(size=(2, 2, 320, head)).astype(np.float16)
    state = np.array([count - 1, 0, 0, 0], np.uint32)
    made = split_attention(c)
    names = {"query": "a0", "cache": "a1", "state": "a2", "partials": "a3"}
    bindings = tuple(names[name] for name in made.bindings)
    document = KernelDocument((replace(made, bindings=bindings),))
    nbytes = 4 * splits * 2 * (head + 4)
    got = run_document(document, [q.tobytes(), cache.tobytes(), state.tobytes(), nbytes])[3]
    parts = np.frombuffer(got, np.float32).reshape(splits, 2, head + 4).astype(np.float64)
    values, top, total = parts[..., :head], parts[..., head], parts[..., head + 1]
    factors = np.exp(top - top.max(axis=0))
    merged = (factors[..., None] * values).sum(0) / (factors * total).sum(0)[:, None]
    keys, held = cache[:, :, :count].astype(np.float64)
    scores = np.einsum("hd,hpd->hp", q, keys)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(merged, np.einsum("hp,hpd->hd", weights, held), atol=1e-5)


@pytest.mark.parametrize("kind", ["words", "scales", "gains"])
def test_weights_are_the_same_on_the_gpu_and_in_numpy(kind: str) -> None:
    made = fill.fill(kind)
    count = 5000
    document = KernelDocument(
        (Dispatch(made.code, (20, 1, 1), ("a0", "a1"), made.access, made.entry),)
    )
    params = np.array([count, 7, -9, 0], np.int32)
    got = run_document(document, [params.tobytes(), 4 * count])[1]
    assert got == fill.data(kind, 0, count, 7, -9)
    assert got[400:800] == fill.data(kind, 100, 100, 7, -9)


def test_a_7b_plan_is_five_dispatches_a_layer_and_fits_webgpus_limits() -> None:
    plan = decoder_plan(LlamaConfig())
    assert len(plan.steps) == 5 * 32 + 3
    assert len(plan.prefill) == 5 * 32 + 2
    assert all(b.nbytes < 128 * 2**20 for b in plan.buffers)
    assert 3.7e9 < LlamaConfig().weight_bytes < 3.8e9
    placed = sorted((b.offset, b.nbytes) for b in plan.buffers if b.seed)
    assert all(offset % ALIGNMENT == 0 for offset, _ in placed)
    ends = [offset + nbytes for offset, nbytes in placed]
    assert all(end <= begin for end, (begin, _) in zip(ends, placed[1:], strict=False))
    assert plan.file_bytes == ends[-1]
    assert len({b.seed for b in plan.buffers if b.seed}) == len(placed)
    for variants in plan.kernels.values():
        for variant in variants:
            assert len(variant.dispatch.bindings) <= 8
    json.dumps(plan.to_json())


def test_settings_differ_and_stay_in_the_matrix() -> None:
    found = settings(4096, 11008, True)
    assert len(set(found)) == len(found) > 20
    assert all(s.candidate.r1 * s.candidate.r0 <= 4096 + s.candidate.r1 for s in found)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(TINY, heads=3),
        replace(TINY, width=96, heads=2),
        replace(TINY, hidden=100),
        replace(TINY, vocabulary=50),
        replace(TINY, context=0),
    ],
    ids=["heads", "head", "hidden", "vocabulary", "context"],
)
def test_sizes_without_kernels_are_told(wrong: LlamaConfig) -> None:
    with pytest.raises(UserError):
        checked(wrong)
