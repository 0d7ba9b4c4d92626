"""A long run of text generation: its memory, and its tokens compared with the native ones."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nnjit_studio.analysis.profile.memory import renderer_memory
from nnjit_studio.bench.conditions import conditions, load_average, measured_now, threads_text
from nnjit_studio.errors import UserError
from nnjit_studio.generation.texts import collect, compare, tokens_per_s
from nnjit_studio.model import Sampling
from nnjit_studio.workbench import Workbench

PROMPT_TOKENS = 16
SETTLED_TEXTS = 3
"""Texts after which the renderer's memory counts: until then the engine compiles its fast tier."""


def soak(
    bench: Workbench, seconds: float, check: bool = True, seed: int = 0
) -> Iterator[dict[str, Any]]:
    """Make text after text, each until the cache is full, for ``seconds`` of generation.

    The open decoder has its kernels. Prompts are seeded random tokens. Checks
    against native ONNX Runtime, between two texts, do not count as generation.

    Yields
    ------
    dict
        One a text: its tokens, rate, Wasm and renderer's resident bytes, and
        what the check found. The last one is the summary.

    Raises
    ------
    UserError
        When the cache holds no more than a prompt.
    """
    opened, facts = bench.model.current, bench.model.decoder
    if facts.capacity <= PROMPT_TOKENS:
        raise UserError(
            f"A cache of {facts.capacity} slots is too small for a long run.",
            "Choose a larger --capacity.",
        )
    logits = next(p for p in opened.plan.outputs if p.spec.name == facts.logits)
    rng = np.random.default_rng(seed)
    before, generated_s = load_average(), 0.0
    texts: list[dict[str, Any]] = []
    while generated_s < seconds:
        prompt = rng.integers(0, logits.spec.shape[-1], PROMPT_TOKENS).tolist()
        made, ended = collect(bench.model.generate(prompt, Sampling(facts.capacity)))
        generated_s += sum(token.ms for token in made) / 1000
        resident = renderer_memory()
        text = {
            "event": "text",
            "t_s": generated_s,
            "tokens": ended.tokens,
            "reason": ended.reason,
            "tokens_per_s": tokens_per_s(made),
            "wasm_bytes": ended.memory_bytes,
            "resident_bytes": resident[0] if resident else None,
        }
        if check:
            bench.process.native_decoder(opened.path, prompt, opened.plan.half_cache)
            choices = bench.process.native_tokens([t.id for t in made])
            text["check"] = compare(made, choices)
        texts.append(text)
        yield text
    yield _summary(bench, texts, before)


def _summary(
    bench: Workbench, texts: Sequence[Mapping[str, Any]], before: list[float]
) -> dict[str, Any]:
    device = bench.page.connect()
    rates = [t["tokens_per_s"] for t in texts]
    settled = [t["resident_bytes"] for t in texts[SETTLED_TEXTS:] if t["resident_bytes"]]
    checks = [t["check"] for t in texts if "check" in t]
    return {
        "event": "summary",
        "browser": device.user_agent,
        **measured_now(before, {"system": platform.system()}),
        "model": bench.model.current.path.name,
        "threads": device.threads,
        "capacity": bench.model.decoder.capacity,
        "seconds": texts[-1]["t_s"],
        "texts": len(texts),
        "tokens": sum(t["tokens"] for t in texts),
        "tokens_per_s": {"first": rates[0], "median": statistics.median(rates), "last": rates[-1]},
        "wasm_bytes": sorted({t["wasm_bytes"] for t in texts}),
        "resident_bytes": {"least": min(settled), "most": max(settled), "last": settled[-1]}
        if settled
        else None,
        "check": {n: sum(c[n] for c in checks) for n in ("same", "ties", "wrong")}
        if checks
        else None,
    }


def soak_text(summary: Mapping[str, Any]) -> str:
    """The figures as sentences."""
    rate, resident, check = (summary[n] for n in ("tokens_per_s", "resident_bytes", "check"))
    wasm = ", ".join(f"{n / 2**20:.1f}" for n in summary["wasm_bytes"])
    text = (
        f"{summary['tokens']} tokens in {summary['texts']} texts of a cache of "
        f"{summary['capacity']}, {summary['seconds']:.0f} s of generation on "
        f"{threads_text(summary['threads'])}; tokens/s in the "
        f"first text {rate['first']:.1f}, median {rate['median']:.1f}, last {rate['last']:.1f}. "
        f"Wasm memory, MiB: {wasm}."
    )
    if resident:
        least, most, last = (resident[n] / 2**20 for n in ("least", "most", "last"))
        text += (
            f" Renderer resident from text {SETTLED_TEXTS + 1} on, MiB: least {least:.1f}, "
            f"most {most:.1f}, at the end {last:.1f}."
        )
    if check:
        text += (
            f" Against native ONNX Runtime: {check['same']} tokens the same, {check['ties']} ties, "
            f"{check['wrong']} wrong."
        )
    return text


def soak_markdown(summary: Mapping[str, Any]) -> str:
    return (
        f"## {summary['date'][:10]}: text generation, a long run of {summary['model']}\n\n"
        f"{conditions(summary)} {soak_text(summary)}"
    )
