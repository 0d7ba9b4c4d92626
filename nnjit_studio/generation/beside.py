"""What lies beside a decoder's file: its tokenizer, and the tokens that end a text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.workbench.inputs.texts import TOKENIZER, tokenizer_beside

CONFIGS = ("genai_config.json", "generation_config.json", "config.json")


def stop_tokens(model: Path) -> tuple[int, ...]:
    """Ids that end a text, as the first configuration beside the model has them; maybe none.

    Exporters put the model into a folder of its own: the folder above is asked too.

    Raises
    ------
    UserError
        When a configuration is no JSON.
    """
    for folder in (model.parent, model.parent.parent):
        for name in CONFIGS:
            found = _ends(folder / name)
            if found:
                return found
    return ()


def _ends(path: Path) -> tuple[int, ...]:
    if not path.is_file():
        return ()
    try:
        config = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as e:
        raise UserError(f"{str(path)!r} is no JSON.", "Give --stop, or repair the file.") from e
    if not isinstance(config, dict):
        return ()
    inner = config.get("model")
    given = (inner if isinstance(inner, dict) else config).get("eos_token_id")
    ids = given if isinstance(given, list) else [given]
    return tuple(i for i in ids if isinstance(i, int) and not isinstance(i, bool))


class Tokenizer:
    """The tokenizer that lies beside a model.

    Raises
    ------
    UserError
        When there is none, it cannot be read, or the library is not installed.
    """

    def __init__(self, model: Path) -> None:
        path = tokenizer_beside(model)
        if path is None:
            raise UserError(
                f"There is no {TOKENIZER} next to {model.name!r}.",
                "Give the prompt's token ids: --ids 1,2,3.",
            )
        try:
            from tokenizers import Tokenizer as Library
        except ImportError as e:
            raise UserError(
                "The library that reads tokenizers is not installed.",
                "Run pip install tokenizers, or give --ids.",
            ) from e
        try:
            self._library: Any = Library.from_file(str(path))
        except Exception as e:  # the library raises a plain Exception
            raise UserError(
                f"{str(path)!r} is no tokenizer: {str(e)[:200]}", "Give the ids: --ids 1,2,3."
            ) from e

    def encode(self, text: str) -> list[int]:
        return [int(i) for i in self._library.encode(text).ids]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._library.decode(list(ids)))


class Spelling:
    """A text as it grows: what each new token adds to it.

    A letter may need several tokens; until it is whole nothing is added.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self.text = ""

    def add(self, token: int) -> str:
        """The new letters."""
        self._ids.append(token)
        whole = self._tokenizer.decode(self._ids)
        if whole.endswith("\N{REPLACEMENT CHARACTER}"):
            return ""
        new, self.text = whole[len(self.text) :], whole
        return new
