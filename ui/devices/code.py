"""The code by which a device joins: as a picture and to type, with the time that it has left."""

from __future__ import annotations

import segno
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QImage, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QWidget

from nnjit_studio.engine.pairing.door import Door
from nnjit_studio.ui.widgets.labels import ElidedLabel, quiet
from nnjit_studio.ui.widgets.panel import named, scaled_font, vbox

SIDE = 196
QUIET_MODULES = 4
"""White around a code, by its standard."""
ENDED = {
    "used": "A device joined by it. Each code lets one in.",
    "expired": "The code has died. Make a new one.",
    "locked": "Locked after five wrong tries. Make a new one.",
}


class QrPicture(QWidget):
    """A QR code in black on white, in any theme: cameras want that."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "QR code of the address, for a phone's camera")
        self.setFixedSize(SIDE, SIDE)
        self._image: QImage | None = None
        self.text = ""

    def show_text(self, text: str) -> None:
        """Draw this; nothing for an empty text."""
        if text == self.text:
            return
        self.text, self._image = text, image_of(text) if text else None
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._image is None:
            return
        painter = QPainter(self)
        painter.fillRect(self.rect(), Qt.GlobalColor.white)
        # Whole pixels for each module: a blurred edge costs a camera's time.
        side = self._image.width() * max(1, SIDE // self._image.width())
        at = (SIDE - side) // 2
        painter.drawImage(QRect(at, at, side, side), self._image)
        painter.end()

    def sizeHint(self) -> QSize:
        return QSize(SIDE, SIDE)


def image_of(text: str) -> QImage:
    """One pixel for each module."""
    rows = tuple(segno.make(text, error="m").matrix_iter(border=QUIET_MODULES))
    image = QImage(len(rows), len(rows), QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    for y, row in enumerate(rows):
        for x, dark in enumerate(row):
            if dark:
                image.setPixelColor(x, y, QColor("black"))
    return image


class CodeBox(QWidget):
    """Address, digits and countdown of the open port."""

    def __init__(self, picture: QrPicture) -> None:
        super().__init__()
        self.picture = picture
        self.address = named(QLabel(), "Address of the port")
        self.digits = named(QLabel(), "One-time code to type")
        self.digits.setFont(scaled_font(self.digits.font(), 2.0, bold=True))
        self.left = named(QLabel(wordWrap=True), "What is left of the code's life")
        self.fingerprint = named(quiet(ElidedLabel()), "Fingerprint of the certificate")
        for label in (self.address, self.digits):
            label.setTextInteractionFlags(
                Qt.TextInteractionFlag.TextSelectableByMouse
                | Qt.TextInteractionFlag.TextSelectableByKeyboard
            )
        vbox(self.address, self.digits, self.left, self.fingerprint, on=self, spacing=4)

    def follow(self, door: Door | None) -> None:
        """Show the state of the port's code now."""
        self.setVisible(door is not None)
        invitation = door.invitation if door else None
        alive = invitation is not None and invitation.state == "open"
        self.picture.setVisible(alive)
        self.digits.setVisible(alive)
        if door is None or invitation is None:
            self.picture.show_text("")
            return
        self.picture.show_text(door.url if alive else "")
        self.address.setText(door.address)
        self.digits.setText(f"{invitation.digits[:3]} {invitation.digits[3:]}" if alive else "")
        self.fingerprint.setText(f"SHA-256 {door.fingerprint}")
        self.fingerprint.tip = "Of the local authority; compare it with what the phone shows"
        self.left.setText(countdown(invitation.seconds_left) if alive else ENDED[invitation.state])


def countdown(seconds: float) -> str:
    """Of a code that lives."""
    whole = int(seconds)
    return f"Lets one device in; dies in {whole // 60}:{whole % 60:02d}"
