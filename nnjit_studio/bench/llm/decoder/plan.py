"""The decoder as data: buffers, kernels with their candidates, and the dispatches of a token."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from nnjit_studio.bench.llm.decoder import fill, tokens
from nnjit_studio.bench.llm.decoder.attention import split_attention
from nnjit_studio.bench.llm.decoder.config import BLOCK, PART, PREFILL, LlamaConfig
from nnjit_studio.bench.llm.decoder.operands import Gated, Merged, Normed, Residual, Rotated, Scored
from nnjit_studio.compiler.wgsl.core.document import Dispatch
from nnjit_studio.compiler.wgsl.templates.gemv_4bit import (
    Activation,
    Epilogue,
    gemv_4bit,
    threads_of,
)
from nnjit_studio.compiler.wgsl.templates.gemv_operands import Plain
from nnjit_studio.compiler.wgsl.templates.nibbles import DECODINGS, F16, REQUIRES
from nnjit_studio.records.gpu_candidate import GpuCandidate

VERSION = 1
ALIGNMENT = 256
"""Where buffers begin in the weights file, and what bindings are aligned to."""
PREFILL_PREFIX = "prefill."
_SPREAD = 4.61
"""Standard deviation of a uniform 4-bit value."""


@dataclass(frozen=True)
class Setting:
    """What a 4-bit kernel can be made with; the page measures several and keeps the fastest."""

    candidate: GpuCandidate
    decoding: str = "bits"
    subgroups: bool = False

    @property
    def requires(self) -> tuple[str, ...]:
        """Features of WebGPU, and with the prefix ``wgsl:`` of the language."""
        decoding = REQUIRES.get(self.decoding)
        return ("subgroups",) * self.subgroups + ((decoding,) if decoding else ())

    def __str__(self) -> str:
        return f"{self.candidate},{self.decoding}{',subgroups' if self.subgroups else ''}"


@dataclass(frozen=True)
class Buffer:
    """A storage buffer; ``kind`` tells how it is filled: weights, ``rope``, or empty for zeros."""

    name: str
    nbytes: int
    kind: str = ""
    seed: int = 0
    exponent: int = 0
    offset: int = -1


@dataclass(frozen=True)
class Variant:
    """One way to make a kernel; ``threads`` and ``requires`` say whether a device can run it."""

    setting: str
    threads: int
    requires: tuple[str, ...]
    dispatch: Dispatch


@dataclass(frozen=True)
class Step:
    """A dispatch of ``kernel``; ``names`` maps the kernel's names of buffers to the plan's."""

    kernel: str
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DecoderPlan:
    """Everything that a page needs but the weights."""

    config: LlamaConfig
    buffers: tuple[Buffer, ...]
    kernels: Mapping[str, tuple[Variant, ...]]
    steps: tuple[Step, ...]
    """The dispatches of one token."""
    prefill: tuple[Step, ...]
    """Those that read :data:`PREFILL` tokens of a prompt at once, and choose none."""

    @property
    def file_bytes(self) -> int:
        """Size of the weights file."""
        return max(b.offset + b.nbytes for b in self.buffers)

    def to_json(self) -> dict[str, Any]:
        """For ``resources/bench/gpu/llama.js``."""
        return {
            "version": VERSION,
            "config": {**asdict(self.config), "head": self.config.head},
            "weight_bytes": self.config.weight_bytes,
            "file_bytes": self.file_bytes,
            "fill": {
                "grid_x": fill.GRID_X,
                "threads": fill.THREADS,
                "kinds": {k: asdict(fill.fill(k)) for k in ("words", "scales", "gains")},
            },
            "buffers": [asdict(b) for b in self.buffers],
            "kernels": {name: [asdict(v) for v in made] for name, made in self.kernels.items()},
            "steps": [asdict(s) for s in self.steps],
            "prefill": [asdict(s) for s in self.prefill],
            "prefill_rows": PREFILL,
        }


def default_setting(k: int, n: int, subgroups: bool = False, rows: int = 1) -> Setting:
    """Thirty-two columns and 256 threads, four words in flight of each: a first guess."""
    side = min(256, 1 << (k.bit_length() - 1))
    unroll = max(1, min(4, k // side)) if rows == 1 else 1
    return Setting(GpuCandidate(4, rows, unroll, 32, rows, side), "bits", subgroups)


def settings(
    k: int, n: int, subgroups: bool, rows: int = 1, f16: bool = False
) -> tuple[Setting, ...]:
    """Candidates that are worth a measurement: columns, threads, words in flight, decoding.

    Many rows leave no registers for words in flight. With ``f16`` those that multiply in f16
    are there too.
    """
    found = []
    less_exact = (F16,) * f16
    for columns in (16, 32, 64):
        for threads in (128, 256, 512) if rows == 1 else (64, 128, 256):
            depth = 8 * threads // (columns // 4)
            for unroll in (2, 4, 8) if rows == 1 else (1,):
                if depth * unroll > k + depth:
                    continue
                central = columns < 64 and unroll == 4
                for decoding in (*(DECODINGS if central else DECODINGS[1:2]), *less_exact):
                    candidate = GpuCandidate(4, rows, unroll, columns, rows, depth)
                    found.append(Setting(candidate, decoding, subgroups))
    return tuple(found)


def decoder_plan(
    config: LlamaConfig, tune: bool = False, subgroups: bool = False, f16: bool = False
) -> DecoderPlan:
    """The plan of a checked configuration.

    Parameters
    ----------
    tune
        Whether 4-bit kernels come in many settings, to be measured, or in the first guess.
    subgroups
        Whether they may use subgroups.
    f16
        Whether settings that multiply in f16 are among those to be measured.
    """
    c = config
    shapes = {**c.matrices, "logits": (c.width, c.vocabulary)}
    kernels: dict[str, tuple[Variant, ...]] = {}
    for rows, prefix in ((1, ""), (PREFILL, PREFILL_PREFIX)):
        ends: dict[str, tuple[Activation, Epilogue]] = {
            "qkv": (Normed(c, rows), Rotated(c, rows)),
            "project": (Merged(c, rows), Residual(c, rows)),
            "expand": (Normed(c, rows), Gated(c, rows)),
            "contract": (Plain("gated", c.hidden, rows), Residual(c, rows)),
        }
        if rows == 1:
            ends["logits"] = Normed(c), Scored(c)
        for name, (source, end) in ends.items():
            k, n = shapes[name]
            wanted: Sequence[Setting] = (default_setting(k, n, subgroups, rows),)
            if tune:
                wanted = settings(k, n, subgroups, rows, f16)
            made = (_variant(c, (k, n, rows), setting, source, end) for setting in wanted)
            kernels[prefix + name] = tuple(made)
        kernels[f"{prefix}embed"] = (Variant("", 256, (), tokens.embed(c, rows)),)
        kernels[f"{prefix}attention"] = (Variant("", 256, (), split_attention(c, rows)),)
    kernels["pick"] = (Variant("", 256, (), tokens.pick(c)),)
    kernels["advance"] = (Variant("", 1, (), tokens.advance(c, PREFILL)),)
    buffers = tuple(_placed(_buffers(c)))
    return DecoderPlan(c, buffers, kernels, tuple(_steps(c, "")), tuple(_steps(c, PREFILL_PREFIX)))


def _variant(
    c: LlamaConfig, shape: tuple[int, int, int], setting: Setting, source: Activation, end: Epilogue
) -> Variant:
    k, n, rows = shape
    dispatch = gemv_4bit(
        c.matrix(k, n),
        setting.candidate,
        source,
        end,
        rows,
        subgroups=setting.subgroups,
        decoding=setting.decoding,
    )
    return Variant(str(setting), threads_of(setting.candidate), setting.requires, dispatch)


def _buffers(c: LlamaConfig) -> Iterator[Buffer]:
    seeds = iter(range(c.seed * 1000, c.seed * 1000 + 1000))

    def matrix(name: str, k: int, n: int, exponent: int) -> Iterator[Buffer]:
        yield Buffer(f"{name}.words", k * n // 2, "words", next(seeds))
        yield Buffer(f"{name}.scales", k // BLOCK * n * 2, "scales", next(seeds), exponent)

    yield from matrix("table", c.width, c.vocabulary, -2)
    for layer in range(c.layers):
        for norm in ("attention", "hidden"):
            yield Buffer(f"{layer}.{norm}.gains", 4 * c.width, "gains", next(seeds))
        for name, (k, n) in c.matrices.items():
            yield from matrix(f"{layer}.{name}", k, n, _exponent(k))
    yield Buffer("logits.gains", 4 * c.width, "gains", next(seeds))
    yield from matrix("logits", c.width, c.vocabulary, _exponent(c.width))
    yield Buffer("rope", 4 * c.context * c.head, "rope")
    for layer in range(c.layers):
        yield Buffer(f"{layer}.cache", 4 * c.context * c.width)
    for name, floats in (
        ("stream", PREFILL * c.width),
        ("scaled", PREFILL * c.width),
        ("squares", PREFILL * c.width // PART),
        ("query", PREFILL * c.width),
        ("partials", PREFILL * c.splits * c.heads * (c.head + 4)),
        ("gated", PREFILL * c.hidden),
        ("logits", c.vocabulary),
        ("best", 2 * c.vocabulary // PART),
        ("tokens", c.context),
        ("state", 4),
    ):
        yield Buffer(name, 4 * floats)


def _exponent(k: int) -> int:
    """Scales near ``1 / (spread sqrt(k))`` keep the size of what they multiply."""
    return round(-math.log2(_SPREAD * math.sqrt(k)))


def _placed(buffers: Iterator[Buffer]) -> Iterator[Buffer]:
    at = 0
    for b in buffers:
        yield replace(b, offset=at) if b.seed else b
        at += -(-b.nbytes // ALIGNMENT) * ALIGNMENT if b.seed else 0


def _steps(c: LlamaConfig, prefix: str) -> Iterator[Step]:
    """Of one token, or with the prefix of many, whose logits nobody needs."""
    yield Step(f"{prefix}embed", {**_matrix("table"), **_gains(c, 0)})
    yield from _layers(c, prefix)
    if prefix:
        yield Step("advance")
    else:
        yield Step("logits", _matrix("logits"))
        yield Step("pick")


def _layers(c: LlamaConfig, prefix: str) -> Iterator[Step]:
    for layer in range(c.layers):
        cache = {"cache": f"{layer}.cache"}
        hidden = {"gains": f"{layer}.hidden.gains"}
        yield Step(f"{prefix}qkv", {**_matrix(f"{layer}.qkv"), **cache})
        yield Step(f"{prefix}attention", cache)
        yield Step(f"{prefix}project", {**_matrix(f"{layer}.project"), **hidden})
        yield Step(f"{prefix}expand", _matrix(f"{layer}.expand"))
        last = _gains(c, layer + 1)
        yield Step(f"{prefix}contract", {**_matrix(f"{layer}.contract"), **last})


def _matrix(name: str) -> dict[str, str]:
    return {"words": f"{name}.words", "scales": f"{name}.scales"}


def _gains(c: LlamaConfig, layer: int) -> dict[str, str]:
    """Of the norm that the layer begins with; after the last layer that of the logits."""
    return {"gains": f"{layer}.attention.gains" if layer < c.layers else "logits.gains"}


def weights_of(plan: DecoderPlan) -> dict[str, bytes]:
    """All weights of a small plan by buffer, as NumPy makes them."""
    return {
        b.name: fill.data(b.kind, 0, b.nbytes // 4, b.seed, b.exponent)
        for b in plan.buffers
        if b.seed
    }
