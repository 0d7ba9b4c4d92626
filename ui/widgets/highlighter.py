"""Colours of words in the kernel's texts: tensor IR, scheduled loops, Wasm and WGSL alike."""

from __future__ import annotations

import re

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from nnjit_studio.ui.widgets.theme import Theme

_WORDS = re.compile(
    r"(?P<comment>(?:#|;;|//).*$)"
    r"|(?P<type>\b(?:(?:v128|[fi](?:32|64|8x16|16x8|32x4|64x2))\.\w+"
    r"|[fi](?:8x16|16x8|32x4|64x2)|f16|f32|f64|i8|u8|i32|u32|i64|bool|v128|vec[234]\w*"
    r"|array|ptr|mut)\b)"
    r"|(?P<keyword>\b(?:local\.(?:get|set|tee)|for|in|range|if|else|while|loop|block|br_if|br|return|fn|let|var|const"
    r"|input|output|constant|workspace|module|func|param|result|local|call|end|select"
    r"|min|max|unrolled|vectorized|barrier)\b)"
    r"|(?P<number>(?<![\w.$])-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b)"
)
KINDS = ("comment", "type", "keyword", "number")


class Highlighter(QSyntaxHighlighter):
    """Colours a document by the tokens of a theme."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self.set_theme(theme)

    def set_theme(self, theme: Theme) -> None:
        self._formats = {}
        for kind in KINDS:
            made = QTextCharFormat()
            made.setForeground(QColor(getattr(theme, f"code_{kind}")))
            made.setFontItalic(kind == "comment")
            self._formats[kind] = made
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        for found in _WORDS.finditer(text):
            kind = found.lastgroup
            if kind is not None:
                self.setFormat(found.start(), len(found[0]), self._formats[kind])
