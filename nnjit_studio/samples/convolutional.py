"""ResNet-18 and MobileNetV2; batch norms are folded into the convolutions, as exporters do."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nnjit_studio.samples.builder import Builder

# Sandler et al., "MobileNetV2" (2018), table 2: expansion, channels, repeats, stride.
_MOBILENET = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
    (6, 320, 1, 1),
)  # fmt: skip


@dataclass(frozen=True)
class Conv:
    """A convolution that keeps the image's size where its stride is 1; ``gain`` of its weights."""

    channels: int
    out: int
    size: int
    stride: int = 1
    group: int = 1
    gain: float = 1.0

    def add(self, b: Builder, name: str, x: str) -> str:
        held, size = self.channels // self.group, self.size
        scale = self.gain * math.sqrt(2 / (held * size * size))
        weight = b.weight(f"{name}.weight", self.out, held, size, size, scale=scale)
        return b.op(
            "Conv", x, weight, b.weight(f"{name}.bias", self.out, scale=0.1),
            kernel_shape=[size] * 2, strides=[self.stride] * 2, pads=[size // 2] * 4,
            group=self.group,
        )  # fmt: skip


def resnet18(b: Builder, image: int, width: int = 64, classes: int = 1000) -> None:
    """``x [1, 3, image, image]`` to ``logits``: He et al., "Deep Residual Learning", table 1."""
    x = b.op("Relu", Conv(3, width, 7, 2).add(b, "conv1", b.input("x", 1, 3, image, image)))
    x = b.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage in range(4):
        wide = width * 2**stage
        for block in range(2):
            with b.within(f"layer{stage + 1}.{block}"):
                stride = 2 if stage and not block else 1
                inner = b.op("Relu", Conv(channels, wide, 3, stride).add(b, "conv1", x))
                # The residual branch is kept small, so that eight of them stay in range.
                inner = Conv(wide, wide, 3, gain=0.5).add(b, "conv2", inner)
                if stride > 1:
                    x = Conv(channels, wide, 1, stride).add(b, "downsample", x)
                x, channels = b.op("Relu", b.op("Add", inner, x)), wide
    _classify(b, "fc", x, channels, classes)


def mobilenet_v2(b: Builder, image: int, part: int = 1, classes: int = 1000) -> None:
    """``x [1, 3, image, image]`` to ``logits``; channels are divided by ``part``."""

    def relu6(x: str) -> str:
        return b.op("Clip", x, b.constant(0.0), b.constant(6.0))

    channels, last = 32 // part, 1280 // part
    x = relu6(Conv(3, channels, 3, 2).add(b, "features.0", b.input("x", 1, 3, image, image)))
    place = 1
    for expansion, wide, repeats, first_stride in _MOBILENET:
        out = wide // part
        for repeat in range(repeats):
            with b.within(f"features.{place}"):
                inner, y = channels * expansion, x
                stride = 1 if repeat else first_stride
                if expansion > 1:
                    y = relu6(Conv(channels, inner, 1).add(b, "expand", y))
                y = relu6(Conv(inner, inner, 3, stride, inner).add(b, "depthwise", y))
                y = Conv(inner, out, 1).add(b, "project", y)
                same = stride == 1 and channels == out
                x, channels = b.op("Add", x, y) if same else y, out
            place += 1
    x = relu6(Conv(channels, last, 1).add(b, f"features.{place}", x))
    _classify(b, "classifier", x, last, classes)


def _classify(b: Builder, name: str, x: str, channels: int, classes: int) -> None:
    mean = b.op("ReduceMean", x, b.ints(-1, -2), keepdims=1)
    logits = b.gemm(name, b.reshape(mean, 1, channels), channels, classes)
    b.output("logits", logits, 1, classes)
