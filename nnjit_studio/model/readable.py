"""Workloads in words: ``Conv 3x3 24->48, 208x208, stride 2, +bias +SiLU``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_LABELS = {
    "gelu": "GELU", "silu": "SiLU", "relu": "ReLU", "sub": "subtract", "mul": "multiply",
    "div": "divide",
}  # fmt: skip
_OPERATORS = {
    "tir": "", "te": "", "sqrt": "square root", "rsqrt": "reciprocal root", "take": "look-up",
    "layer_norm": "layer norm", "rms_norm": "RMS norm", "log_softmax": "log-softmax",
    "max_pool2d": "max pool", "avg_pool2d": "mean pool", "adaptive_avg_pool2d": "mean pool",
    "strided_slice": "slice", "expand_dims": "expand", "broadcast_to": "broadcast",
    "gather_nd": "gather", "gather_elements": "gather", "concatenate": "join",
    "batch_matmul": "matmul", "multiply": "multiply",
}  # fmt: skip
"""Operators whose names are no words; a name that is not here is split at its underscores."""
_NAMES = "|".join(sorted(map(re.escape, _OPERATORS), key=len, reverse=True))
_TOKEN = re.compile(rf"(?<=_)(?:{_NAMES})(?=_)")


@dataclass(frozen=True)
class Words:
    """A workload's operator, its sizes, and what is fused behind it, such as ``+bias +SiLU``."""

    operator: str
    sizes: str
    fused: str

    @property
    def title(self) -> str:
        """Without the sizes."""
        return f"{self.operator} {self.fused}".rstrip()

    def __str__(self) -> str:
        fused = f", {self.fused}" if self.fused else ""
        return f"{self.operator} {self.sizes}".rstrip() + fused


@lru_cache(maxsize=4096)
def words_of(key: str) -> Words:
    """The words for a workload's key or name; of an unknown form, the key as it is."""
    kind, colon, rest = key.split("#", 1)[0].partition(":")
    if not colon:
        return Words(key, "", "")
    dims_text, _, tail = rest.partition(":")
    try:
        dims = tuple(int(n) for n in dims_text.split("x") if n)
    except ValueError:
        return Words(key, "", "")
    fused = " ".join(f"+{_LABELS.get(label, label)}" for label in tail.split("+")[1:])
    operator, sizes = _sized(kind, dims)
    return Words(operator, sizes, fused)


def _sized(kind: str, dims: Sequence[int]) -> tuple[str, str]:
    if kind == "conv2d" and len(dims) == 11:
        return _convolution(dims)
    if kind.startswith("matmul") and len(dims) == 3:
        m, k, n = dims
        return "MatMul", f"{m}x{k} by {k}x{n}"
    if kind.startswith("batch_matmul") and len(dims) == 4:
        batch, m, k, n = dims
        return "MatMul", f"{batch} times {m}x{k} by {k}x{n}"
    if kind == "attention" and len(dims) == 4:
        heads, queries, keys, width = dims
        return "Attention", f"{heads} heads, {queries} queries by {keys} keys, width {width}"
    named = operators_of(kind)
    return named[:1].upper() + named[1:], "x".join(map(str, dims))


def _convolution(dims: Sequence[int]) -> tuple[str, str]:
    """Sizes as ``CONV2D_DIMS`` of the lite space has them; height and width are the input's."""
    batch, channels, height, width, out, rows, columns, stride, _, dilation, groups = dims
    depthwise = groups == channels and groups > 1
    operator = f"{'Depthwise conv' if depthwise else 'Conv'} {rows}x{columns}"
    parts = [f"{channels}" if depthwise and out == channels else f"{channels}->{out}"]
    parts.append(f"{height}x{width}")
    parts += [f"batch {batch}"] * (batch > 1) + [f"stride {stride}"] * (stride > 1)
    parts += [f"dilation {dilation}"] * (dilation > 1)
    parts += [f"{groups} groups"] * (groups > 1 and not depthwise)
    return operator, ", ".join(parts)


def operators_of(kind: str) -> str:
    """The operators that a kind of workload is made of, such as ``conv1d, add, relu``."""
    held = _TOKEN.sub(lambda found: f"{_OPERATORS[found[0]].replace(' ', '~')}", f"_{kind}_")
    words = [word.replace("~", " ") for word in held.split("_") if word]
    return ", ".join(dict.fromkeys(words))
