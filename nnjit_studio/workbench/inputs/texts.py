"""Text as token ids, by the tokenizer that lies beside a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import InputPort, Survey
from nnjit_studio.workbench.inputs.roles import TEXTS, kind_of
from nnjit_studio.workbench.inputs.values import Arrays, Sizes, shape_of

TOKENIZER = "tokenizer.json"
MOST_BYTES = 64 << 20


def tokenizer_beside(model: Path) -> Path | None:
    """The tokenizer's file in the model's folder or the one above, as exporters lay it."""
    places = (model.parent / TOKENIZER, model.parent.parent / TOKENIZER)
    return next((p for p in places if p.is_file()), None)


def token_ids(tokenizer: Path, text: str) -> list[int]:
    """Ids of a text.

    Raises
    ------
    UserError
        When the package is not installed, or the file is none of its kind.
    """
    (ids,) = _encoded(tokenizer, [text])
    return ids


def lengths_of(tokenizer: Path, texts: Sequence[str]) -> list[int]:
    """How many ids each text has.

    Raises
    ------
    UserError
        As of :func:`token_ids`.
    """
    return [len(ids) for ids in _encoded(tokenizer, texts)]


def _encoded(tokenizer: Path, texts: Sequence[str]) -> list[list[int]]:
    try:
        from tokenizers import Tokenizer
    except ImportError as e:
        raise UserError(
            "Text needs the package tokenizers.", "Install it: pip install tokenizers."
        ) from e
    if tokenizer.stat().st_size > MOST_BYTES:
        raise UserError(f"{tokenizer.name} is larger than {MOST_BYTES >> 20} MiB.")
    try:
        made = Tokenizer.from_file(str(tokenizer))
        made.no_padding()  # many files fill all texts of a batch up to the longest
        return [[int(i) for i in each.ids] for each in made.encode_batch(list(texts))]
    except Exception as e:  # the package raises plain exceptions
        raise UserError(f"{tokenizer.name} is no tokenizer: {str(e).splitlines()[0]}.") from e


def fed_with_text(survey: Survey, sizes: Sizes, ids: Sequence[int]) -> Arrays:
    """Ids, mask, types and positions for the inputs that take such, cut or padded to the sizes."""
    return {
        port.name: text_row(port, sizes, ids)
        for port in survey.inputs
        if kind_of(port) == TEXTS and not port.is_number and port.dims is not None
    }


def text_row(port: InputPort, sizes: Sizes, ids: Sequence[int]) -> NDArray[Any]:
    """What one input takes of a text: its ids, mask, types or positions, by the input's name."""
    shape = shape_of(port, sizes)
    row = np.zeros(shape[-1], port.dtype)
    taken = min(len(ids), shape[-1])
    name = port.name.lower()
    if "mask" in name:
        row[:taken] = 1
    elif "position" in name:
        row[:] = np.arange(shape[-1])
    elif "type" not in name:
        row[:taken] = list(ids)[:taken]
    rows: NDArray[Any] = np.broadcast_to(row, shape).copy()
    return rows
