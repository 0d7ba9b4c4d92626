"""The fields that a text is made from: a decoder, a prompt of ids, how tokens are chosen."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QSpinBox,
    QTextEdit,
    QWidget,
)

from nnjit_studio.errors import UserError
from nnjit_studio.generation.prompts import in_letters, parse_ids, read_ids
from nnjit_studio.generation.session import TextRequest
from nnjit_studio.model import GenerationRequest, Sampling
from nnjit_studio.ui.widgets.labels import quiet
from nnjit_studio.ui.widgets.panel import Panel, hbox, inset, named, push_button, vbox

PROMPT_LINES = 3
MOST_TOKENS, MOST_SEED = 100_000, 2**31 - 1
PREFILL_ROWS = GenerationRequest().rows


class TextForm(Panel):
    """The fields; their names are the options of ``nnjit generate``."""

    changed = Signal()
    """Something was typed or chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = named(
            QLineEdit(placeholderText="the open model"),
            "Decoder",
            "ONNX file of a decoder with past keys and values; empty for the open model",
        )
        self.decoder_button = push_button("…", "Choose the decoder")
        self.prompt = named(
            QTextEdit(acceptRichText=False, placeholderText="Once upon a time, or ids: 15496, 11"),
            "Prompt",
            "Words, by the tokenizer.json next to the decoder; or token ids, separated by commas",
        )
        self.prompt.setObjectName("field")
        self.prompt.setTabChangesFocus(True)
        height = self.prompt.fontMetrics().lineSpacing() * PROMPT_LINES + 12
        self.prompt.setFixedHeight(height)
        self.prompt_button = push_button("…", "Read the prompt from a file")
        self.tokens = named(_number(1, MOST_TOKENS, 64), "New tokens", "At most so many new ones")
        self.top_k = named(
            _number(1, MOST_TOKENS, 1), "Top-k", "Draw one of so many likeliest tokens; 1 is greedy"
        )
        self.temperature = named(
            inset(QDoubleSpinBox(minimum=0.01, maximum=100.0, singleStep=0.1, value=1.0)),
            "Temperature",
            "Logits are divided by it before one is drawn; greedy tokens do not depend on it",
        )
        self.top_p = named(
            inset(QDoubleSpinBox(minimum=0.01, maximum=1.0, singleStep=0.05, value=1.0)),
            "Top-p",
            "Draw one of the likeliest tokens that have this share together; 1 is all of top-k",
        )
        self.penalty = named(
            inset(QDoubleSpinBox(minimum=0.1, maximum=10.0, singleStep=0.1, value=1.0)),
            "Repetition penalty",
            "Above 1, tokens that the text has become less likely",
        )
        self.seed = named(_number(0, MOST_SEED, 0), "Seed", "Equal seeds give equal draws")
        self.capacity = named(
            _number(0, MOST_TOKENS, 0),
            "Cache",
            "Tokens that the cache holds, of the prompt and new ones; a smaller cache is faster",
        )
        self.capacity.setSpecialValueText("as the model")
        self.prefill = named(
            QLineEdit(placeholderText="made from the decoder"),
            "Prefill model",
            "ONNX file that reads a whole prompt, for a decoder of fixed shapes",
        )
        self.prefill_button = push_button("…", "Choose the prefill model")
        form = QFormLayout()
        form.setVerticalSpacing(5)
        form.setHorizontalSpacing(10)
        form.addRow("Decoder", _across(self.decoder, self.decoder_button))
        form.addRow("Prompt", _across(self.prompt, self.prompt_button))
        form.addRow("New tokens", _pair(self.tokens, "cache", self.capacity))
        form.addRow("Top-k", _pair(self.top_k, "temperature", self.temperature))
        form.addRow("Top-p", _pair(self.top_p, "repetition", self.penalty))
        form.addRow("Seed", self.seed)
        form.addRow("Prefill", _across(self.prefill, self.prefill_button))
        vbox(form, None, on=self, margins=(10, 6, 10, 6))
        for field in (self.decoder, self.prefill):
            field.textChanged.connect(lambda _: self.changed.emit())
        self.prompt.textChanged.connect(self.changed)
        numbers = self.tokens, self.top_k, self.seed, self.capacity
        for number in (*numbers, self.temperature, self.top_p, self.penalty):
            number.valueChanged.connect(lambda _: self.changed.emit())
        self.top_k.valueChanged.connect(self._follow)
        self._follow()

    def read_prompt(self, path: Path) -> None:
        """Put the ids of a file into the field.

        Raises
        ------
        UserError
            When they cannot be read.
        """
        self.prompt.setPlainText(", ".join(map(str, read_ids(path))))

    def request(self, opened: Path | None) -> TextRequest:
        """The request that the fields make; ``opened`` is the open model's file.

        Raises
        ------
        UserError
            Naming what is missing.
        """
        chosen = self.decoder.text().strip()
        if not chosen and opened is None:
            raise UserError("No decoder is chosen.", "Open a model, or choose a decoder's file.")
        prompt = self.prompt.toPlainText()
        words = prompt if in_letters(prompt) else ""
        ids = [] if words else parse_ids(prompt, "The prompt")
        if not (ids or words):
            raise UserError("The prompt is empty.", "Give at least one token id.")
        path = Path(chosen) if chosen or opened is None else opened
        prefill = self.prefill.text().strip()
        for file in (path, *([Path(prefill)] if prefill else [])):
            if not file.is_file():
                raise UserError(f"{file.name} is not there.", "Choose another file.")
        return TextRequest(
            path,
            tuple(ids),
            self._sampling(),
            GenerationRequest(self.capacity.value() or None, PREFILL_ROWS, prefill),
            words,
        )

    def _sampling(self) -> Sampling:
        return Sampling(
            self.tokens.value(),
            self.top_k.value(),
            self.temperature.value(),
            self.seed.value(),
            top_p=self.top_p.value(),
            repetition_penalty=self.penalty.value(),
        )

    def _follow(self) -> None:
        draws = self.top_k.value() > 1
        self.temperature.setEnabled(draws)
        self.top_p.setEnabled(draws)
        self.seed.setEnabled(draws)


def _number(low: int, high: int, value: int) -> QSpinBox:
    return inset(QSpinBox(minimum=low, maximum=high, value=value))


WIDEST = "temperature"
"""Of the labels between two fields."""


def _pair(field: QWidget, word: str, other: QWidget) -> QHBoxLayout:
    """Two fields with a label between them; those of all rows stand in columns."""
    label = quiet(QLabel(word))
    label.setFixedWidth(label.fontMetrics().horizontalAdvance(WIDEST) + 2)
    for widget in (field, other):
        widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return _across(field, label, other)


def _across(*widgets: QWidget) -> QHBoxLayout:
    return hbox(*((w, 0 if isinstance(w, QPushButton | QLabel) else 1) for w in widgets), spacing=5)
