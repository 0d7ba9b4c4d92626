"""Models of real sizes with seeded weights, in the op pattern of torch.onnx.

They stand in for trained ones where only shapes and operators matter: speed, memory and
agreement with ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.errors import UserError
from nnjit_studio.samples.builder import Builder
from nnjit_studio.samples.convolutional import mobilenet_v2, resnet18
from nnjit_studio.samples.decoders import Gpt2, gpt2
from nnjit_studio.samples.encoder_decoders import BART, T5_SMALL, bart, t5
from nnjit_studio.samples.encoders import (
    DISTILBERT,
    ROBERTA,
    VIT_TINY,
    WHISPER_TINY,
    Sizes,
    distilbert,
    roberta,
    vit,
    whisper_encoder,
)

Write = Callable[[Builder, int], None]


@dataclass(frozen=True)
class Entry:
    """A model of the zoo: its graph for a sequence length, in full and at a toy size."""

    full: Write
    small: Write
    sequence: int | None = 384
    """The length by default; None where the model has none to choose."""
    longest: int = 512
    small_sequence: int = 9


_GPT2 = Gpt2()
_TINY_GPT2 = Gpt2(layers=2, heads=2, width=24, vocabulary=61, positions=32)
_TINY = Sizes(layers=2, heads=2, width=24, inner=40, vocabulary=61, positions=32)

MODELS: Mapping[str, Entry] = {
    "roberta-base": Entry(lambda b, s: roberta(b, ROBERTA, s), lambda b, s: roberta(b, _TINY, s)),
    "distilbert": Entry(
        lambda b, s: distilbert(b, DISTILBERT, s), lambda b, s: distilbert(b, _TINY, s)
    ),
    "bart-base": Entry(lambda b, s: bart(b, BART, s), lambda b, s: bart(b, _TINY, s), 384, 1024),
    "t5-small": Entry(lambda b, s: t5(b, T5_SMALL, s), lambda b, s: t5(b, _TINY, s)),
    "gpt2": Entry(lambda b, s: gpt2(b, _GPT2, s), lambda b, s: gpt2(b, _TINY_GPT2, s), 384, 1024),
    "gpt2-prefill": Entry(
        lambda b, s: gpt2(b, _GPT2, s, present=True),
        lambda b, s: gpt2(b, _TINY_GPT2, s, present=True),
        384,
        1024,
    ),
    "gpt2-decode": Entry(
        lambda b, s: gpt2(b, _GPT2, 1, s - 1), lambda b, s: gpt2(b, _TINY_GPT2, 1, s - 1), 384, 1024
    ),
    "vit-tiny": Entry(
        lambda b, _: vit(b, VIT_TINY, 224, 16, 1000), lambda b, _: vit(b, _TINY, 16, 4, 7), None
    ),
    "mobilenet-v2": Entry(
        lambda b, _: mobilenet_v2(b, 224), lambda b, _: mobilenet_v2(b, 32, 8, 7), None
    ),
    "resnet-18": Entry(lambda b, _: resnet18(b, 224), lambda b, _: resnet18(b, 32, 4, 7), None),
    "whisper-tiny-encoder": Entry(
        lambda b, _: whisper_encoder(b, WHISPER_TINY, 80),
        lambda b, _: whisper_encoder(b, _TINY, 6),
        None,
    ),
}
"""By name; ``gpt2-decode`` of sequence S is one step after a past of S - 1."""


def write_model(name: str, out: Path, sequence: int | None = None, small: bool = False) -> Path:
    """Write a model of the zoo as one ONNX file.

    Parameters
    ----------
    sequence
        Tokens (of ``gpt2-decode``: past and present ones); the model's own default when None.
    small
        A toy of the same pattern, for tests.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    UserError
        When the model has no such sequence length.
    """
    entry = MODELS[name]
    if sequence is None:
        sequence = (entry.small_sequence if small else entry.sequence) or 0
    elif entry.sequence is None:
        raise UserError(f"The model {name!r} has no sequence length.", "Leave out --sequence.")
    elif not 2 <= sequence <= entry.longest:
        raise UserError(
            f"The model {name!r} has no variant of sequence {sequence}.",
            f"Choose a length of 2 to {entry.longest}.",
        )
    builder = Builder()
    (entry.small if small else entry.full)(builder, sequence)
    return builder.save(out, name)
