"""The verb ``sample``: models to try everything on."""

from __future__ import annotations

from pathlib import Path

import click

from nnjit_studio.cli.common import JSON, answer
from nnjit_studio.cli.verbs import OUTPUT, argument, option, verb
from nnjit_studio.errors import UserError
from nnjit_studio.samples.zoo import MODELS, write_model


@verb()
def sample(
    name: str = argument(type=click.Choice(["minilm", *MODELS])),
    output: Path = option(None, flag="-o --output", required=True, type=OUTPUT),
    sequence: int | None = option(
        None,
        "Sequence length in tokens, past ones included for gpt2-decode; by default 128 for "
        "minilm, 384 for the others.",
        type=click.IntRange(1, 1024),
    ),
    batch: int = option(1, "Batch size; for minilm only.", type=click.IntRange(1, 64)),
    as_json: bool = JSON,
) -> None:
    """Write a sample model as ONNX.

    minilm is all-MiniLM-L6-v2 with its trained weights. The others have their real sizes
    and the operators that torch.onnx writes, with seeded random weights.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    if name == "minilm":
        from nnjit_studio.samples.minilm import write_minilm

        path = write_minilm(output, sequence or 128, batch)
    elif batch != 1:
        raise UserError(f"The model {name!r} is written with batch 1 alone.", "Leave out --batch.")
    else:
        path = write_model(name, output, sequence)
    answer(as_json, {"ok": True, "model": name, "path": str(path)}, f"wrote {path}")
