"""A decoder in native ONNX Runtime, fed as exported: the reference for text generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import ModelError

_TYPES: dict[str, Any] = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
}


@dataclass(frozen=True)
class NativeChoice:
    """The largest logit's token, and how much smaller the logit of the token compared is."""

    id: int
    deficit: float


class NativeDecoder:
    """Follows a text token by token with the past as the model returns it.

    A past of fixed size is filled from its first slot on, the rest masked. With ``half_cache`` it
    is rounded to f16 after each run, for files that have it so but are computed in f32 here.
    """

    def __init__(self, path: Path, prompt: Sequence[int], half_cache: bool = False) -> None:
        import onnx

        from nnjit_studio.compiler.importer.decoder.branches import has_branches, take_branch
        from nnjit_studio.compiler.importer.decoder.parts import find_decoder
        from nnjit_studio.compiler.oracle.exact_sums import exact_session
        from nnjit_studio.compiler.oracle.full_precision import in_full_precision

        model = onnx.load(str(path), load_external_data=False)
        self._merged = has_branches(model)
        changed = model if in_full_precision(model, path.parent) else None
        try:
            self._session = exact_session(path, changed)
        except Exception as e:  # ONNX Runtime raises types of its own
            raise ModelError(
                f"Native ONNX Runtime cannot load {path.name!r}: {str(e)[:200]}",
                "Generate without --check.",
            ) from e
        take_branch(model, past=True)
        self._decoder = find_decoder(model)
        self._types = {i.name: _TYPES[i.type] for i in self._session.get_inputs()}
        fixed = self._decoder.past or 0
        self._pasts: dict[str, NDArray[Any]] = {
            p.input: np.zeros((1, p.heads, fixed, p.width), self._types[p.input])
            for p in self._decoder.pasts
        }
        self._half_cache = half_cache
        self._length = 0
        self._waiting = list(prompt)

    def compare(self, tokens: Sequence[int]) -> list[NativeChoice]:
        """ONNX Runtime's choice in place of each token, given those before it."""
        choices = []
        for token in tokens:
            logits = self._read()
            best = int(np.argmax(logits))
            choices.append(NativeChoice(best, float(logits[best] - logits[token])))
            self._waiting = [int(token)]
        return choices

    def _read(self) -> NDArray[Any]:
        """Logits behind all that was not read yet."""
        at_once = len(self._waiting) if self._decoder.rows is None else 1
        logits = np.zeros(0, np.float32)
        while self._waiting:
            ids, self._waiting = self._waiting[:at_once], self._waiting[at_once:]
            logits = self._run(ids)
        return logits

    def _run(self, ids: Sequence[int]) -> NDArray[Any]:
        from nnjit_studio.compiler.importer.decoder.branches import CHOICE
        from nnjit_studio.compiler.importer.decoder.parts import IDS, MASK

        decoder, count = self._decoder, len(ids)
        slots = decoder.past if decoder.past is not None else self._length
        mask = np.ones((1, slots + count))
        mask[:, self._length : slots] = 0
        feeds: dict[str, Any] = {IDS: np.array([ids]), MASK: mask}
        if self._merged:
            feeds[CHOICE] = np.array([self._length > 0])
        if decoder.positions:
            feeds[decoder.positions] = np.arange(self._length, self._length + count)[None]
        feeds = {name: array.astype(self._types[name]) for name, array in feeds.items()}
        names = [decoder.logits, *(p.output for p in decoder.pasts)]
        logits, *presents = self._session.run(names, {**feeds, **self._pasts})
        for past, present in zip(decoder.pasts, presents, strict=True):
            if self._half_cache:
                present = present.astype(np.float16).astype(present.dtype)
            if decoder.past is None:
                self._pasts[past.input] = present
            elif self._length < slots:
                self._pasts[past.input][:, :, self._length] = present[:, :, -1]
        self._length += count
        row: NDArray[Any] = logits[0, -1]
        return row
