"""What the page of a bundle asks for and draws, decided by the signature of the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.errors import UserError
from nnjit_studio.model import TensorSpec

TEXT, MASK, TYPES, POSITIONS = "text", "mask", "types", "positions"
PICTURE, SOUND, ARRAY = "picture", "sound", "array"
LABELS, BOXES, SIMILARITY, WAVEFORM, NUMBERS = (
    "labels",
    "boxes",
    "similarity",
    "waveform",
    "numbers",
)

INPUTS = (TEXT, MASK, TYPES, POSITIONS, PICTURE, SOUND, ARRAY)
"""Of inputs: ``mask``, ``types`` and ``positions`` are filled from the text of ``text``."""
OUTPUTS = (LABELS, BOXES, SIMILARITY, WAVEFORM, TEXT, PICTURE, NUMBERS)
"""Of outputs: ``text`` are scores of a vocabulary, drawn as the likeliest tokens."""

_SOUND_SAMPLES = 256
"""From here on a row is taken for sound where its name says so, and drawn as a wave."""
_VOCABULARY = 1000
"""Scores of so many kinds for each place are words, not boxes or numbers."""
_FLOATS = ("f32", "f16")
_SOUND_NAME = r"audio|sound|wav|speech|signal|voice"
_BOX_NAME = r"box|bbox|detection"


@dataclass(frozen=True)
class DemoPort:
    """What an input or an output of the model is, for the page."""

    name: str
    kind: str


@dataclass(frozen=True)
class Demo:
    """Of each input one of :data:`INPUTS`, of each output one of :data:`OUTPUTS`."""

    inputs: tuple[DemoPort, ...] = ()
    outputs: tuple[DemoPort, ...] = ()

    @property
    def takes_text(self) -> bool:
        return any(port.kind == TEXT for port in self.inputs)


NO_DEMO = Demo()


@dataclass(frozen=True)
class PageParts:
    """What the page of a bundle needs beyond the model."""

    demo: Demo = NO_DEMO
    tokenizer: bytes = b""
    """A tokenizer.json of Hugging Face; empty without."""
    labels: bytes = b""
    """Names of classes, one a line, UTF-8; empty without."""


NO_PAGE = PageParts()


def decide(
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    tokenizer: bool,
    overrides: Mapping[str, str] | None = None,
) -> Demo:
    """Choose the kinds of a model's inputs and outputs by names, ranks, dtypes and sizes.

    Parameters
    ----------
    tokenizer
        Whether one goes with the bundle: without it, token ids are an array.
    overrides
        Kind by the name of an input or output.

    Raises
    ------
    UserError
        When an override names nothing of the model, an unknown kind, or one that the shape
        does not allow.
    """
    given = dict(overrides or {})
    taken = [DemoPort(s.name, given.get(s.name) or _input(s, tokenizer)) for s in inputs]
    if not any(port.kind == TEXT for port in taken):  # a mask of nothing is an array
        taken = [
            port
            if port.name in given or port.kind in (PICTURE, SOUND)
            else DemoPort(port.name, ARRAY)
            for port in taken
        ]
    fed = {port.kind for port in taken}
    drawn = [DemoPort(s.name, given.get(s.name) or _output(s, fed)) for s in outputs]
    _check(given, inputs, outputs)
    return Demo(tuple(taken), tuple(drawn))


def read_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Overrides as the command line gives them: ``NAME=KIND`` each.

    Raises
    ------
    UserError
        When one is not of that form.
    """
    made = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not (equals and name and kind):
            raise UserError(f"{text!r} is not of the form NAME=KIND.", "Give --demo image=picture.")
        made[name] = kind
    return made


def problem(spec: TensorSpec, kind: str) -> str:
    """Why an input or output cannot be of this kind; empty where it can."""
    rank, sizes = len(spec.shape), spec.shape
    if kind == PICTURE and not (rank == 4 and (_colours(sizes[1]) or _colours(sizes[3]))):
        return "a picture has four axes, of which the second or the last is 1 or 3"
    if kind in (TEXT, MASK, TYPES, POSITIONS) and rank not in (1, 2, 3):
        return "a text has one or two axes, scores of one up to three"
    if kind == BOXES and rank not in (1, 2, 3):
        return "boxes have up to three axes"
    return ""


def _check(
    given: Mapping[str, str], inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
) -> None:
    for name, kind in given.items():
        for specs, kinds in ((inputs, INPUTS), (outputs, OUTPUTS)):
            for spec in (s for s in specs if s.name == name):
                why = "" if kind in kinds else f"known are {', '.join(kinds)}"
                if why := why or problem(spec, kind):
                    raise UserError(f"{name!r} cannot be shown as {kind!r}: {why}.")
    known = [spec.name for spec in (*inputs, *outputs)]
    if unknown := [name for name in given if name not in known]:
        raise UserError(
            f"The model has no input or output {unknown[0]!r}.", f"It has {', '.join(known)}."
        )


def _input(spec: TensorSpec, tokenizer: bool) -> str:
    rank, sizes, name = len(spec.shape), spec.shape, spec.name.lower()
    if spec.dtype in ("i64", "i32") and rank in (1, 2) and tokenizer and sizes[-1] > 1:
        by_name = ((MASK, "mask"), (TYPES, "type|segment"), (POSITIONS, "position"))
        return next((kind for kind, words in by_name if re.search(words, name)), TEXT)
    if rank == 4 and min(sizes[1], sizes[2], sizes[3]) > 0:
        side = min(sorted(sizes[1:])[1:])
        if side >= 8 and (_colours(sizes[1]) or _colours(sizes[3])):
            return PICTURE
    if spec.dtype in _FLOATS and rank in (1, 2, 3) and _is_row(sizes):
        loud = re.search(_SOUND_NAME, name) or sizes[-1] >= 8000
        if sizes[-1] >= _SOUND_SAMPLES and loud:
            return SOUND
    return ARRAY


def _output(spec: TensorSpec, fed: set[str]) -> str:
    rank, sizes, name = len(spec.shape), spec.shape, spec.name.lower()
    if spec.dtype not in _FLOATS:
        return NUMBERS
    if PICTURE in fed and rank in (2, 3) and (re.search(_BOX_NAME, name) or _is_yolo(sizes)):
        return BOXES
    if rank == 3 and TEXT in fed and sizes[-1] >= _VOCABULARY:
        return TEXT
    if _is_row(sizes) and rank >= 2 and re.search("embed|pool|feature", name):
        return SIMILARITY
    heard = re.search(_SOUND_NAME, name) or (SOUND in fed and sizes[-1:] >= (4000,))
    if _is_row(sizes) and sizes[-1] >= _SOUND_SAMPLES and heard:
        return WAVEFORM
    if rank == 2 and _is_row(sizes) and sizes[-1] > 1 and fed & {PICTURE, SOUND, TEXT}:
        return LABELS
    if rank == 4 and PICTURE in fed and _colours(sizes[1]) and min(sizes[2:]) >= 16:
        return PICTURE
    return NUMBERS


def _is_row(sizes: Sequence[int]) -> bool:
    return bool(sizes) and all(n == 1 for n in sizes[:-1])


def _is_yolo(sizes: Sequence[int]) -> bool:
    """One row of box and scores for each place: ``[1, 4 + classes, places]``."""
    return len(sizes) == 3 and 5 <= sizes[1] <= 1100 and sizes[2] > sizes[1] and sizes[2] >= 200


def _colours(n: int) -> bool:
    return n in (1, 3)
