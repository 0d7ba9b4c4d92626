"""What builds of a module are measured on: single operators, models of the zoo, files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from nnjit_studio.compiler.onnx_file.check import load_model
from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.errors import ModelError, UserError
from nnjit_studio.model.feeds import Feeds, session_feeds
from nnjit_studio.samples.small import port, save_model
from nnjit_studio.samples.zoo import MODELS, write_model
from nnjit_studio.support.limits import seconds_for
from nnjit_studio.support.readers import Ended, spread


@dataclass(frozen=True)
class Case:
    """A model and its inputs; ``flops`` is 0 where they are not counted."""

    name: str
    model: Path
    feeds: Mapping[str, NDArray[Any]]
    flops: int = 0


@dataclass(frozen=True)
class Product:
    """A MatMul; with ``constant`` its second operand is a weight."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    constant: bool = True


PRODUCTS = {
    "matmul-384x768x768": Product((384, 768), (768, 768)),
    "matmul-640x768x3072": Product((640, 768), (768, 3072)),
    "matmul-384x768x768-dynamic": Product((384, 768), (768, 768), False),
    "batch-12x384x64x384": Product((12, 384, 64), (12, 64, 384), False),
    "batch-12x384x384x64": Product((12, 384, 384), (12, 384, 64), False),
    "row-768x3072": Product((1, 768), (768, 3072)),
    "row-768x3072-dynamic": Product((1, 768), (768, 3072), False),
}
CONVOLUTION = "conv-64x64x3x3-56x56"
KERNELS = (*PRODUCTS, CONVOLUTION)
WHOLE = ("minilm", "vit-tiny", "mobilenet-v2", "whisper-tiny-encoder", "resnet-18")
DEFAULT = (*KERNELS, *WHOLE)
DETECTOR = "ocr-det"
"""PP-OCRv4's, of a wheel that has to be installed."""
_WHEEL, _FILE = "rapidocr_onnxruntime", "models/ch_PP-OCRv4_det_infer.onnx"
_PICTURE = (1, 3, 640, 640)
_CHANNELS, _SIZE, _KERNEL = 64, 56, 3


def case_of(name: str, folder: Path) -> Case:
    """The case of a name, or of an .onnx file whose inputs have fixed shapes.

    Raises
    ------
    UserError
        When there is no such name or file.
    ModelError
        When the file cannot be read, or not within the limits.
    """
    path = folder / f"{name}.onnx"
    if name in PRODUCTS:
        return _product(name, PRODUCTS[name], path)
    if name == CONVOLUTION:
        return _convolution(path)
    if name == "minilm":
        from nnjit_studio.samples.minilm import write_minilm

        return _model(name, write_minilm(path, 128, 1))
    if name in MODELS:
        return _model(name, write_model(name, path))
    if name == DETECTOR:
        return _model(name, _detector(path))
    if Path(name).is_file():
        return Case(Path(name).stem, Path(name), _feeds_of_file(Path(name)))
    raise UserError(
        f"There is no case {name!r}.", f"Use {', '.join((*KERNELS, 'minilm', DETECTOR, *MODELS))}."
    )


def _product(name: str, product: Product, path: Path) -> Case:
    rng = np.random.default_rng(1)
    a = rng.uniform(-1, 1, product.a).astype(np.float32)
    b = rng.uniform(-1, 1, product.b).astype(np.float32) / np.float32(np.sqrt(product.b[-2]))
    out = (*product.a[:-1], product.b[-1])
    given = [port("a", product.a)] + ([] if product.constant else [port("b", product.b)])
    constants = [numpy_helper.from_array(b, "b")] if product.constant else []
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    save_model(path, [node], given, [port("y", out)], constants)
    feeds = {"a": a} if product.constant else {"a": a, "b": b}
    return Case(name, path, feeds, 2 * int(np.prod(out)) * product.a[-1])


def _convolution(path: Path) -> Case:
    rng = np.random.default_rng(1)
    shape = (1, _CHANNELS, _SIZE, _SIZE)
    weights = rng.standard_normal((_CHANNELS, _CHANNELS, _KERNEL, _KERNEL)).astype(np.float32) / 24
    node = helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    constant = numpy_helper.from_array(weights.astype(np.float32), "w")
    save_model(path, [node], [port("x", shape)], [port("y", shape)], [constant])
    feeds = {"x": rng.uniform(-1, 1, shape).astype(np.float32)}
    return Case(CONVOLUTION, path, feeds, 2 * _CHANNELS**2 * _KERNEL**2 * _SIZE**2)


def _detector(path: Path) -> Path:
    """The wheel's file with the size of its picture fixed."""
    found = find_spec(_WHEEL)
    if found is None or found.origin is None:
        raise UserError(
            f"The case {DETECTOR} is a model of the package {_WHEEL}, which is not installed.",
            "Install it with pip, or leave the case out.",
        )
    model = onnx.load(Path(found.origin).parent / _FILE)
    sizes = model.graph.input[0].type.tensor_type.shape.dim
    for size, given in zip(sizes, _PICTURE, strict=True):
        size.dim_value = given
    onnx.save(model, path)
    return path


def _model(name: str, path: Path) -> Case:
    return Case(name, path, _feeds(path))


def _feeds_of_file(path: Path) -> Feeds:
    """Inputs of a stranger's model: a process with limits opens it."""
    try:
        (feeds,) = spread(_feeds, [path], seconds_for(path.stat().st_size))
    except Ended as e:
        raise ModelError(f"Reading {path.name!r} {e}.", e.hint) from e
    return feeds


def _feeds(path: Path) -> Feeds:
    load_model(path)  # says in words what is wrong with it
    return session_feeds(native_session(path), {})
