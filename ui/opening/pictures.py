"""Pictures as a model's input: resized, their colours in order, their values in range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage, QImageReader, QPainter

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import InputPort
from nnjit_studio.workbench.inputs.roles import channels_last
from nnjit_studio.workbench.inputs.values import Sizes, shape_of

STRETCH, PAD = "stretch", "keep ratio, pad"
FITS = (STRETCH, PAD)
SCALES = ("0 to 1", "-1 to 1", "ImageNet mean and deviation", "0 to 255")
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
"""Of ImageNet's training pictures, as torchvision documents them."""
_FORMATS = {
    1: QImage.Format.Format_Grayscale8, 3: QImage.Format.Format_RGB888,
    4: QImage.Format.Format_RGBA8888,
}  # fmt: skip
LIMIT_MIB = 256
"""A picture that takes more once it is unpacked is refused."""


def read_picture(path: Path) -> QImage:
    """A PNG, JPEG or what else Qt reads, turned upright.

    Raises
    ------
    UserError
        When it is no picture, or a too large one.
    """
    reader = QImageReader(str(path))
    reader.setAutoTransform(True)
    reader.setDecideFormatFromContent(True)
    reader.setAllocationLimit(LIMIT_MIB)
    image = reader.read()
    if image.isNull():
        raise UserError(
            f"{path.name} is no picture that can be read: {reader.errorString()}.",
            "Choose a PNG or JPEG.",
        )
    return image


def fitted(image: QImage, width: int, height: int, fit: str) -> QImage:
    """The picture at a size; padded at the right and the bottom where its ratio is kept."""
    smooth = Qt.TransformationMode.SmoothTransformation
    if fit == STRETCH:
        return image.scaled(width, height, Qt.AspectRatioMode.IgnoreAspectRatio, smooth)
    scaled = image.scaled(width, height, Qt.AspectRatioMode.KeepAspectRatio, smooth)
    ground = QImage(width, height, QImage.Format.Format_RGBA8888)
    ground.fill(Qt.GlobalColor.black)
    painter = QPainter(ground)
    painter.drawImage(0, 0, scaled)
    painter.end()
    return ground


def as_input(image: QImage, port: InputPort, sizes: Sizes, fit: str, scale: str) -> NDArray[Any]:
    """The picture in an input's shape and dtype, once for each of the batch.

    Raises
    ------
    UserError
        When the input has no 1, 3 or 4 colours.
    """
    shape = shape_of(port, sizes)
    last = channels_last(port)
    batch, (height, width, colours) = (
        shape[0], shape[1:] if last else (shape[2], shape[3], shape[1]),
    )  # fmt: skip
    if colours not in _FORMATS:
        raise UserError(f"The input {port.name} has {colours} channels: a picture has 1, 3 or 4.")
    plain = fitted(image, width, height, fit).convertToFormat(_FORMATS[colours])
    rows = np.frombuffer(plain.constBits(), np.uint8).reshape(height, plain.bytesPerLine())
    pixels = rows[:, : width * colours].reshape(height, width, colours)
    values = _scaled(pixels, scale if np.dtype(port.dtype).kind == "f" else "0 to 255")
    one = values if last else values.transpose(2, 0, 1)
    return np.broadcast_to(one, (batch, *one.shape)).astype(port.dtype)


def _scaled(pixels: NDArray[Any], scale: str) -> NDArray[Any]:
    if scale == "0 to 255":
        return pixels
    unit = pixels.astype(np.float32) / 255
    if scale == "-1 to 1":
        return unit * 2 - 1
    if scale.startswith("ImageNet") and pixels.shape[2] == 3:
        return (unit - _MEAN) / _DEVIATION
    return unit
