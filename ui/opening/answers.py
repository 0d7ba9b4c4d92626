"""What a user said of a file's sizes and inputs, remembered by the file's content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from PySide6.QtCore import QSettings

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import Survey
from nnjit_studio.ui.opening.pictures import FITS, SCALES, as_input, read_picture
from nnjit_studio.workbench.inputs import roles, texts, values

RANDOM, PICTURE, TEXT, ARRAYS = "random", "picture", "text", "arrays"
LIMIT = 40
"""Files whose answers are kept, the latest ones."""
KEY = "answers"


@dataclass(frozen=True)
class Answers:
    """Sizes by the names of open dimensions, constants by inputs, and where values come from."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    source: str = RANDOM
    file: str = ""
    """The picture or the .npz file."""
    text: str = "The quick brown fox jumps over the lazy dog."
    fit: str = FITS[0]
    scale: str = SCALES[0]
    seconds: float = 0.0
    """That the import took last time, 0 where it is not known."""

    def arrays(self, survey: Survey) -> values.Arrays:
        """All inputs.

        Raises
        ------
        UserError
            When a file cannot be read or does not fit.
        """
        found: values.Arrays = {}
        sizes = dict(self.sizes)
        if self.source == ARRAYS:
            found = values.read_npz(Path(self.file), survey)
            sizes |= values.sizes_of(found, survey)
        elif self.source == TEXT:
            found = self._text(survey, sizes)
        elif self.source == PICTURE:
            image = read_picture(Path(self.file))
            ports = [p for p in survey.inputs if roles.kind_of(p) == roles.PICTURE]
            found = {p.name: as_input(image, p, sizes, self.fit, self.scale) for p in ports}
        rest = [p for p in survey.inputs if p.name not in found]
        if unknown := [p.name for p in rest if p.dims is None]:
            raise UserError(
                f"The file does not say how many axes {unknown[0]} has: give it as an .npz array."
            )
        return {**values.drawn(survey, sizes, self.constants), **found}

    def _text(self, survey: Survey, sizes: values.Sizes) -> values.Arrays:
        tokenizer = texts.tokenizer_beside(survey.path)
        if tokenizer is None:
            raise UserError(f"There is no {texts.TOKENIZER} beside the model.")
        return texts.fed_with_text(survey, sizes, texts.token_ids(tokenizer, self.text))


def guessed(survey: Survey) -> Answers:
    """The first sizes and values of every axis and constant."""
    return Answers(
        {axis.name: axis.first for axis in roles.axes_of(survey)},
        {c.name: c.first for c in roles.constants_of(survey)},
    )


def remembered(settings: QSettings, survey: Survey) -> Answers | None:
    """What was said of the same file last time; None where that does not fit any more."""
    try:
        held = json.loads(str(settings.value(KEY, "{}")))[survey.sha256]
        answers = Answers(**held)
        fits = set(answers.sizes) == set(survey.open_dims) and all(
            isinstance(n, int) and n > 0 for n in answers.sizes.values()
        )
        return answers if fits else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def remember(settings: QSettings, survey: Survey, answers: Answers) -> None:
    """Keep answers for the file."""
    try:
        held = dict(json.loads(str(settings.value(KEY, "{}"))))
    except (ValueError, TypeError):
        held = {}
    held.pop(survey.sha256, None)
    held[survey.sha256] = asdict(answers)
    settings.setValue(KEY, json.dumps(dict(list(held.items())[-LIMIT:])))
