"""``nnjit bench llama``: a Llama-shaped decoder with seeded 4-bit weights on WebGPU."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nnjit_studio.bench.gpu.page import gpu_page
from nnjit_studio.bench.gpu.tables import adapter_text
from nnjit_studio.bench.llm.decoder import fill
from nnjit_studio.bench.llm.decoder.config import LlamaConfig, checked
from nnjit_studio.bench.llm.decoder.plan import (
    PREFILL_PREFIX,
    DecoderPlan,
    decoder_plan,
    weights_of,
)
from nnjit_studio.bench.llm.decoder.reference import Reference
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.report import Report, Table
from nnjit_studio.bench.statistics import spread
from nnjit_studio.errors import UserError
from nnjit_studio.verdict.figures import relative_error

WARM_MS = 60.0
CHECKED_BYTES = 64 * 1024 * 1024
"""Decoders up to this size are checked against the float64 reference, token by token."""
_CHUNK_WORDS = 1 << 22


def write_weights(plan: DecoderPlan, path: Path) -> None:
    """The weights file, chunk by chunk; equal to what a page makes on the GPU."""
    with path.open("wb") as file:
        for b in plan.buffers:
            if not b.seed:
                continue
            file.seek(b.offset)
            for first in range(0, b.nbytes // 4, _CHUNK_WORDS):
                count = min(_CHUNK_WORDS, b.nbytes // 4 - first)
                file.write(fill.data(b.kind, first, count, b.seed, b.exponent))


@dataclass(frozen=True)
class TextRun:
    """The text that is timed, and how its kernels are chosen."""

    prompt_tokens: int
    """Any ids, because the weights are random."""
    tokens: int
    """Those made after the prompt."""
    rounds: int = 5
    weights: str = "gpu"
    """``gpu``: made there from their seed; ``file``: written to a file and streamed."""
    tune: bool = True
    """Whether settings are measured; else the first guess runs."""
    f16: bool = False
    """Whether tuning may choose products in f16."""


def bench_llama(
    config: LlamaConfig, run: TextRun, options: BenchOptions, note: Note
) -> dict[str, Any]:
    """Load, tune and time the decoder in a browser page; the benchmark's JSON document.

    Raises
    ------
    UserError, TargetError, PageError
    """
    rng = np.random.default_rng(config.seed)
    prompt = [int(t) for t in rng.integers(0, checked(config).vocabulary, run.prompt_tokens)]
    if len(prompt) + run.tokens > config.context:
        raise UserError(
            f"{len(prompt)} tokens and {run.tokens} more do not fit a context of {config.context}.",
            "Give a larger --context, or fewer --tokens.",
        )
    if run.weights == "file":
        note("writing the weights file")
        write_weights(decoder_plan(config), options.folder / "weights.bin")
    with gpu_page("llama", options, note) as page:
        subgroups = "subgroups" in page.profile.features
        plan = decoder_plan(config, run.tune, subgroups, run.f16)
        (options.folder / "plan.json").write_text(json.dumps(plan.to_json()))
        job = {"weights": run.weights, "tokens": run.tokens, "rounds": run.rounds}
        (message,) = page.rows({**job, "prompt": prompt, "warm_ms": WARM_MS})
        found = page.document()
    found["config"] = asdict(config)
    found["row"] = _row(plan, message, prompt, run.tokens)
    found["correct"] = _judged(plan, message, prompt, run.tokens)
    return found


def _row(
    plan: DecoderPlan, message: Mapping[str, Any], prompt: list[int], tokens: int
) -> dict[str, Any]:
    c, samples = plan.config, message["samples"]
    ms = {
        name: spread(values)
        for name, values in samples.items()
        if values and all(v is not None for v in values)
    }
    read_bytes = c.weight_bytes + c.cache_bytes(len(prompt) + tokens // 2)
    gpu = ms.get("token_gpu_ms") or ms.get("gpu_ms") or ms["wall_ms"]
    shapes = {**c.matrices, "logits": (c.width, c.vocabulary)}
    kernels = {}
    for name, kernel in message["kernels"].items():
        kernels[name] = {**kernel}
        if (shape := shapes.get(name.removeprefix(PREFILL_PREFIX))) is not None:
            nbytes = c.matrix(*shape).nbytes
            kernels[name] |= {"bytes": nbytes, "gbs": nbytes / kernel["us"] / 1e3}
    return {
        "tokens_per_s": 1e3 / ms["wall_ms"]["median"],
        "tokens_per_s_one_by_one": 1e3 / ms["one_by_one_ms"]["median"],
        "ms": ms,
        "dispatches": message["dispatches"],
        "dispatches_per_layer": (message["dispatches"] - 3) / c.layers,
        "read_bytes_per_token": read_bytes,
        "gbs": read_bytes / gpu["median"] / 1e6,
        "kernels": kernels,
        "loaded": message["loaded"],
        "tune_s": message["tune_s"],
        "tried": message["tried"],
        "counters": message["counters"],
        "prompt_tokens_per_s": (len(prompt) - 1) / ms["prompt_ms"]["median"] * 1e3,
    }


def _judged(
    plan: DecoderPlan, message: Mapping[str, Any], prompt: list[int], tokens: int
) -> dict[str, Any]:
    """Whether each round made the same text and, of small decoders, the reference's text."""
    made = message["tokens"][len(prompt) :]
    found: dict[str, Any] = {"same_each_round": message["same"], "tokens": made}
    logits = np.array([math.nan if x is None else x for x in message["logits"]])
    found["finite"] = bool(np.isfinite(logits).all())
    if plan.config.weight_bytes <= CHECKED_BYTES:
        reference = Reference(plan.config, weights_of(plan))
        wanted, margin = reference.generate(prompt, tokens)
        last = reference.before_last[: len(logits)]
        found |= {
            "reference_tokens": wanted,
            "equal": wanted == made,
            "least_margin": margin,
            "logits_rel_err": relative_error(logits.astype(np.float32), last),
        }
    return found


def llama_report(result: Mapping[str, Any]) -> Report:
    c = result["config"]
    title = f"decoder of {c['layers']} layers, width {c['width']}"
    parts = (adapter_text(result), _head(result), _kernels(result), _checks(result))
    return Report(result, title, "", parts)


def _head(result: Mapping[str, Any]) -> str:
    row, c = result["row"], result["config"]
    ms = row["ms"]
    loaded = row["loaded"]
    lines = [
        f"{c['layers']} layers, width {c['width']}, hidden {c['hidden']}, {c['heads']} heads, "
        f"vocabulary {c['vocabulary']}: {row['read_bytes_per_token'] / 1e9:.3f} GB read a token.",
        f"{row['tokens_per_s']:.1f} tokens/s queued ({ms['wall_ms']['median']:.3f} ms a token), "
        f"{row['tokens_per_s_one_by_one']:.1f} tokens/s each read before the next.",
        f"The prompt: {row['prompt_tokens_per_s']:.0f} tokens/s.",
        f"Host {ms['host_ms']['median']:.3f} ms a token; {row['dispatches']} dispatches, "
        f"{row['dispatches_per_layer']:g} a layer.",
    ]
    if "token_gpu_ms" in ms:
        lines.append(
            f"GPU {ms['token_gpu_ms']['median']:.3f} ms a token ({row['gbs']:.0f} GB/s), "
            f"IQR {ms['token_gpu_ms']['iqr']:.3f}."
        )
    lines.append(
        f"Weights from {loaded['weights']}: {loaded['file_bytes'] / 1e9:.2f} GB in "
        f"{loaded['seconds']:.1f} s, JavaScript heap at most {loaded['heap_bytes'] / 2**20:.0f} MiB"
        f"; settings measured in {row['tune_s']:.1f} s."
    )
    return "\n".join(lines)


def _kernels(result: Mapping[str, Any]) -> Table:
    head = ["kernel", "times", "us", "us of all", "GB/s", "setting"]
    kernels = result["row"]["kernels"]
    token = {name: k for name, k in kernels.items() if not name.startswith(PREFILL_PREFIX)}
    token.pop("advance")
    rows = []
    for name, k in {**token, **kernels}.items():
        total = k["us"] * k["uses"]
        gbs = f"{k['gbs']:.0f}" if "gbs" in k else "-"
        rows.append([name, str(k["uses"]), f"{k['us']:.2f}", f"{total:.1f}", gbs, k["setting"]])
    total = sum(k["us"] * k["uses"] for k in token.values())
    dispatches = str(result["row"]["dispatches"])
    return Table(head, [*rows, ["sum of a token", dispatches, "", f"{total:.1f}", "", ""]])


def _checks(result: Mapping[str, Any]) -> str:
    found = result["correct"]
    lines = [f"Every round made the same text: {'yes' if found['same_each_round'] else 'NO'}."]
    if "equal" in found:
        lines.append(
            f"The float64 reference's greedy text: {'the same' if found['equal'] else 'ANOTHER'} "
            f"({len(found['reference_tokens'])} tokens, least lead of a logit "
            f"{found['least_margin']:.1e}); last logits off by {found['logits_rel_err']:.1e}."
        )
    return "\n".join(lines)
