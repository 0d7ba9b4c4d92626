"""Open axes of a file, each with a role that gives it a range and a first size."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnjit_studio.model.survey import InputPort, Survey

BATCH, CHANNELS, HEIGHT, WIDTH = "batch", "channels", "height", "width"
TEXT, SAMPLES, STEPS, FREE = "text length", "samples", "time steps", "free"
RANGES: Mapping[str, tuple[int, int]] = {
    BATCH: (1, 64), CHANNELS: (1, 4096), HEIGHT: (16, 4096), WIDTH: (16, 8192),
    TEXT: (1, 512), SAMPLES: (32, 1_920_000), STEPS: (1, 8192), FREE: (1, 65536),
}  # fmt: skip
"""Smallest and largest size that the dialog takes, by role."""
FIRST: Mapping[str, int] = {
    BATCH: 1, CHANNELS: 3, HEIGHT: 224, WIDTH: 224, TEXT: 128, SAMPLES: 16000, STEPS: 100, FREE: 1,
}  # fmt: skip
PICTURE, TEXTS, SOUND, OTHER = "picture", "text", "sound", "numbers"
LINE_OF_TEXT = "a line of text"
LINE_HEIGHT, LINE_WIDTH = 48, 320
"""Of one line of text, as recognisers of PaddleOCR are trained (ppocr's rec_image_shape)."""
STREAM_SAMPLES = 512
"""A window of a model that keeps a state: 32 ms at 16 kHz, as of Silero's voice detector."""

_WORDS = (
    (BATCH, r"batch|^n$|^bs?$"),
    (TEXT, r"seq|len|token|text|^s$|^t$"),
    (HEIGHT, r"height|^h$|rows"),
    (WIDTH, r"width|^w$|cols"),
    (CHANNELS, r"channel|^c$"),
    (SAMPLES, r"sample|audio|wave"),
    (STEPS, r"time|frame|step"),
)


@dataclass(frozen=True)
class Axis:
    """One open dimension, wherever it occurs."""

    name: str
    """In the file, or its place."""
    role: str
    first: int
    why: str
    """Where the first size comes from."""
    places: tuple[tuple[str, int], ...]
    """Inputs that have it, each with the axis."""

    @property
    def low(self) -> int:
        return RANGES[self.role][0]

    @property
    def high(self) -> int:
        return RANGES[self.role][1]

    @property
    def label(self) -> str:
        """Its place, and the file's name of it where there is one."""
        return f"{self.places[0][1]}, {self._named or 'no name'}"

    @property
    def title(self) -> str:
        """Its role, and what tells it from another one of that role."""
        port, axis = self.places[0]
        own = self._named or f"axis {axis} of {port}"
        return self.role if own == self.role else f"{self.role}: {own}"

    @property
    def is_line_height(self) -> bool:
        """Whether a picture of a line of text is scaled to this height."""
        return self.role == HEIGHT and self.why.startswith(LINE_OF_TEXT)

    @property
    def _named(self) -> str:
        """The file's name of it; empty where an exporter wrote something in place of one."""
        port, axis = self.places[0]
        made = self.name == f"{port}.{axis}" or re.search(r"dynamic|^unk|^\?", self.name, re.I)
        return "" if made else self.name


@dataclass(frozen=True)
class Constant:
    """An input of one number that is held at a value."""

    name: str
    dtype: str
    first: float
    why: str


def kind_of(port: InputPort) -> str:
    """What an input is fed with."""
    rank = len(port.dims or ())
    sizes = [d for d in port.dims or () if isinstance(d, int)]
    if port.dtype.startswith(("int", "uint")) and rank <= 2 and port.dtype != "uint8":
        return TEXTS
    if rank == 4 and (port.window == 2 or any(n in (1, 3, 4) for n in sizes)):
        return PICTURE
    heard = {"Conv", "STFT", "DFT", "LSTM", "GRU"} & set(port.readers)
    if rank in (2, 3) and (port.window == 1 or (heard and _is_sound(port.name))):
        return SOUND
    return OTHER


def _is_sound(name: str) -> bool:
    return re.search(r"audio|sound|wav|speech|signal|^input$|^x$", name.lower()) is not None


def channels_last(port: InputPort) -> bool:
    """Whether a picture's colours are its last axis."""
    dims = port.dims or ()
    return len(dims) == 4 and dims[3] in (1, 3, 4) and dims[1] not in (1, 3, 4)


def constants_of(survey: Survey) -> tuple[Constant, ...]:
    """Inputs of one whole number: they choose something, so they are given by hand."""
    return tuple(
        Constant(p.name, p.dtype, *_value_of(p.name.lower()))
        for p in survey.inputs
        if p.is_number and p.dtype.startswith(("int", "uint", "bool"))
    )


def _value_of(name: str) -> tuple[float, str]:
    if name in ("sr", "fs") or ("sampl" in name and "rate" in name):
        return 16000, "sampling rate of speech, in Hz"
    return 1, "default"


def axes_of(survey: Survey) -> tuple[Axis, ...]:
    """Every open dimension once, in the file's order."""
    places: dict[str, list[tuple[InputPort, int]]] = {}
    for port in survey.inputs:
        for axis, dim in enumerate(port.dims or ()):
            if isinstance(dim, str):
                places.setdefault(dim, []).append((port, axis))
    return tuple(_axis(survey, name, found) for name, found in places.items())


def most_varied(axes: Sequence[Axis]) -> list[Axis]:
    """First what is likely to differ from run to run: lines of text differ in width, all else
    rather than batches and channels."""
    rarely = {BATCH: 2, CHANNELS: 2}
    return sorted(axes, key=lambda a: rarely.get(a.role, int(a.is_line_height)))


def _axis(survey: Survey, name: str, found: list[tuple[InputPort, int]]) -> Axis:
    port, axis = found[0]
    role = _role(port, axis, name)
    first, why = _first(survey, port, axis, role)
    return Axis(name, role, first, why, tuple((p.name, i) for p, i in found))


def _role(port: InputPort, axis: int, name: str) -> str:
    kind, rank = kind_of(port), len(port.dims or ())
    own = "" if name == f"{port.name}.{axis}" else name.lower()
    named = next((role for role, words in _WORDS if re.search(words, own)), "")
    if named == BATCH and axis and isinstance((port.dims or ())[0], str):
        named = ""  # a number of something else: [batch, N]
    if kind == PICTURE:
        order = (BATCH, HEIGHT, WIDTH, CHANNELS) if channels_last(port) else (
            BATCH, CHANNELS, HEIGHT, WIDTH
        )  # fmt: skip
        return named if named in order else order[axis]
    if kind == SOUND and named in ("", TEXT, STEPS, SAMPLES):
        # Rows of a fixed window: steps in time, and not so many samples.
        fixed = isinstance((port.dims or ())[-1], int)
        return (STEPS if named else BATCH) if fixed or axis < rank - 1 else SAMPLES
    if named:
        return named
    if axis == 0 or (rank == 3 and axis == 1 and re.search(r"state|hidden|^h|^c", port.name)):
        return BATCH
    return TEXT if kind == TEXTS else FREE


def _first(survey: Survey, port: InputPort, axis: int, role: str) -> tuple[int, str]:
    if role in (HEIGHT, WIDTH):
        return _picture_size(survey, port, axis, role)
    if role == CHANNELS and port.channels:
        return port.channels, "weights of the first convolution"
    if role == SAMPLES and len(survey.inputs) > 1:
        return STREAM_SAMPLES, "a window of 32 ms at 16 kHz"
    if role == STEPS and kind_of(port) == SOUND:
        return 1, "one window"
    return FIRST[role], f"default of a {role}" if role != FREE else "default"


def _picture_size(survey: Survey, port: InputPort, axis: int, role: str) -> tuple[int, str]:
    if noted := _noted(survey.metadata):
        return noted[0 if role == HEIGHT else 1], "noted in the file"
    other = (port.dims or ())[axis + (1 if role == HEIGHT else -1)]
    if isinstance(other, int) and role == WIDTH and other <= 64:
        width = max(round(other * LINE_WIDTH / LINE_HEIGHT / 32), 1) * 32
        return width, f"{LINE_OF_TEXT} {other} high"
    if isinstance(other, int):
        return other, f"square, with the file's {other}"
    if "character" in survey.metadata:
        size = LINE_HEIGHT if role == HEIGHT else LINE_WIDTH
        return size, f"{LINE_OF_TEXT}: the file lists characters"
    return FIRST[role], "default of a picture"


def _noted(metadata: Mapping[str, str]) -> tuple[int, int] | None:
    """Height and width as exporters note them: ``imgsz: [640, 640]`` (Ultralytics)."""
    for key in ("imgsz", "image_size", "input_size"):
        numbers = [int(n) for n in re.findall(r"\d+", metadata.get(key, ""))]
        if numbers and all(RANGES[HEIGHT][0] <= n <= RANGES[HEIGHT][1] for n in numbers[-2:]):
            return (numbers[-2], numbers[-1]) if len(numbers) > 1 else (numbers[0], numbers[0])
    return None
