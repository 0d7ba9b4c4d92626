"""What lies beside a model for the page of its bundle: a tokenizer, names of classes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnjit_studio.bundle.demo import PageParts, decide
from nnjit_studio.errors import UserError
from nnjit_studio.model import TensorSpec
from nnjit_studio.workbench.inputs.texts import MOST_BYTES, tokenizer_beside

LABELS, CONFIG = "labels.txt", "config.json"
_LABELS_BYTES = 1 << 20


def page_parts(
    model: Path,
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    kinds: Mapping[str, str] | None = None,
) -> PageParts:
    """Decide what the page shows, and read the files for it.

    Parameters
    ----------
    kinds
        Kind by the name of an input or output, in place of the decision.

    Raises
    ------
    UserError
        When a kind does not fit the model, or a file beside it cannot be read.
    """
    found = tokenizer_beside(model)
    demo = decide(inputs, outputs, found is not None, kinds)
    tokenizer = _read(found, MOST_BYTES) if found and demo.takes_text else b""
    if demo.takes_text and not tokenizer:
        raise UserError(
            f"The page cannot take text: no tokenizer.json lies next to {model.name}.",
            "Put it there, or leave the kind out.",
        )
    return PageParts(demo, tokenizer, _labels(model.parent))


def _labels(folder: Path) -> bytes:
    """Names of classes, one a line: labels.txt, or those of a Transformers config.json."""
    if (folder / LABELS).is_file():
        return _read(folder / LABELS, _LABELS_BYTES)
    config = folder / CONFIG
    if not config.is_file():
        return b""
    try:
        names = json.loads(_read(config, _LABELS_BYTES)).get("id2label", {})
        ordered = [" ".join(str(names[str(i)]).split()) for i in range(len(names))]
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        return b""  # another program's file, of which nothing is promised
    return "".join(f"{name}\n" for name in ordered).encode()


def _read(path: Path, limit: int) -> bytes:
    try:
        if path.stat().st_size > limit:
            raise UserError(f"{path.name} is larger than {limit >> 20} MiB.", "Move it elsewhere.")
        return path.read_bytes()
    except OSError as e:
        raise UserError(f"{path.name} cannot be read: {e.strerror}.", "Check its rights.") from e
