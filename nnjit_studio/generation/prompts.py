"""Prompts: token ids as users write them, and models that cannot go on with any."""

from __future__ import annotations

from pathlib import Path

from nnjit_studio.errors import UserError
from nnjit_studio.model import Graph

EXPORT = (
    "Export the decoder with past keys and values, an attention mask and position ids, "
    "as optimum's text-generation-with-past task does."
)


def read_ids(path: Path) -> list[int]:
    """Token ids from a file, divided by commas or white space.

    Raises
    ------
    UserError
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UserError(f"{str(path)!r} cannot be read.", "Choose a text file of ids.") from e
    return parse_ids(text, path.name)


def parse_ids(text: str, where: str) -> list[int]:
    """Token ids, divided by commas or white space; ``where`` they stand is for the error.

    Raises
    ------
    UserError
    """
    try:
        ids = [int(part) for part in text.replace(",", " ").split()]
    except ValueError as e:
        raise UserError(f"{where} holds something else than numbers: {e}.", "Write 1,2,3.") from e
    if any(i < 0 for i in ids):
        raise UserError(f"{where} holds a negative number.", "Token ids start at 0.")
    return ids


def in_letters(text: str) -> bool:
    """Whether a prompt is words for a tokenizer, and not token ids."""
    return any(not (c.isdigit() or c.isspace() or c in ",-") for c in text)


def why_no_decoder(graph: Graph) -> str:
    """A sentence where no input of a graph can hold past keys or values; empty where one may."""
    specs = [graph.tensors[name] for name in graph.inputs]
    if any(len(s.shape) == 4 and s.dtype in ("f32", "f16") for s in specs):
        return ""
    return f"{graph.name} is no decoder with past keys and values. {EXPORT}"
