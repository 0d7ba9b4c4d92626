"""Recorded imports: the plan of a model, and the digests of all its kernels."""

from __future__ import annotations

import hashlib
import json
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import asdict
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from decoder_models import decoder
from onnx_models import save
from operator_cases import Case, all_cases, case, draw, reference
from replay_programs import Recorded, compiled
from test_fold_views import attention

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.importer.generation import import_generation
from nnjit_studio.errors import CompileError, ModelError, UnsupportedOpError
from nnjit_studio.model import GenerationRequest
from nnjit_studio.records import GPU_TIERS, TIERS
from nnjit_studio.samples.zoo import MODELS, write_model

PARTS = 3
"""Groups that models, and operator cases, are dealt to by name, so that workers share them."""
IN_HALVES = ("gpt2-prefill", "mobilenet-v2", "roberta-base")


def operators(part: int) -> Recorded:
    """All kernels of each operator case."""
    yield from _imports(case for case in all_cases() if _part_of(case.op) == part)


def importer_forms() -> Recorded:
    """What the importer makes of quantised operators, DFTs, a convolution in tiles and heads."""
    x, w = draw("u8", 5, 8, high=250), draw("i8", 8, 6, low=-100, high=100)
    image, taps = draw("u8", 1, 3, 7, 7, high=250), draw("i8", 4, 3, 3, 3, low=-100, high=100)
    scale, zero, none = np.array(0.02, np.float32), np.array(120, np.uint8), np.array(0, np.int8)
    of_x, of_w, of_y = (scale, zero), (scale / 2, none), (scale * 2, zero)
    joined = draw("u8", 5, 8, high=250, seed=1)
    yield from _imports(
        (
            case("QLinearMatMul", "u8", x, *of_x, w, *of_w, *of_y, weights=tuple(range(1, 8))),
            case(
                "QLinearConv", "u8", image, *of_x, taps, *of_w, *of_y,
                weights=tuple(range(1, 8)), pads=[1] * 4, strides=[2, 2],
            ),
            case(
                "ConvInteger", "u8", image, draw("u8", 4, 3, 3, 3), zero, weights=(1, 2),
                pads=[1] * 4,
            ),
            case(
                "QLinearAdd", "u8", x, *of_x, joined, *of_x, *of_y,
                weights=tuple(range(1, 8)), domain="com.microsoft",
            ),
            case("DFT", "f32", draw("f32", 2, 11, 1), axis=1, onesided=1, variant="real"),
            case("DFT", "f32", draw("f32", 2, 11, 2), axis=1, inverse=1, variant="inverse"),
        )
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path, weights = Path(folder, "m.onnx"), Path(folder, "w.bin")
        yield from _of_model("tiles", import_model(_convolution(path), weights))
        yield from _of_model("heads", import_model(attention(path, size=16), weights))


def _convolution(path: Path) -> Path:
    """Small compared with its head, so that its weights may grow as tiles want them."""
    nodes = [
        onnx.helper.make_node("Conv", ["x", "w", "b"], ["c"], "layer", pads=[1] * 4),
        onnx.helper.make_node("Relu", ["c"], ["r"], "act"),
        onnx.helper.make_node("Flatten", ["r"], ["f"], "flat"),
        onnx.helper.make_node("MatMul", ["f", "head"], ["y"], "head"),
    ]
    shapes = {"w": (16, 16, 3, 3), "b": (16,), "head": (16 * 256, 16)}
    weights = {name: draw("f32", *shape) for name, shape in shapes.items()}
    return save(path, nodes, {"x": [1, 16, 16, 16]}, {"y": [1, 16]}, weights)


def _imports(cases: Iterable[Case]) -> Recorded:
    with tempfile.TemporaryDirectory() as folder:
        path, weights = Path(folder, "m.onnx"), Path(folder, "w.bin")
        for each in cases:
            onnx.save(reference(each)[0], str(path))
            try:
                built = import_model(path, weights)
            except (UnsupportedOpError, ModelError):
                yield f"{each.name} | refused", b""
                continue
            yield f"{each.name} | Wasm", _digests(built, TIERS)
            yield f"{each.name} | WGSL", _digests(built, GPU_TIERS)


def models(part: int) -> Recorded:
    """Toys of the zoo, some with their weights in f16 too."""
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            if _part_of(name) != part:
                continue
            path = write_model(name, Path(folder, "m.onnx"), small=True)
            yield from _of_model(name, import_model(path, Path(folder, "w.bin")))
            if name in IN_HALVES:
                half = import_model(path, Path(folder, "w.bin"), half_weights=True)
                yield from _of_model(f"{name} in f16", half)


def generation() -> Recorded:
    """The two plans of a decoder, over one cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = decoder(Path(folder, "m.onnx"), depth=16)
        built = import_generation(path, Path(folder, "w.bin"), GenerationRequest(rows=8))
        yield "facts", as_json(asdict(built.facts))
        yield from _of_model("decode", built.decode)
        assert built.prefill is not None
        yield from _of_model("prefill", built.prefill)


def as_json(data: object) -> bytes:
    """Equal data give equal bytes."""
    return json.dumps(data, sort_keys=True).encode()


def _part_of(name: str) -> int:
    return zlib.crc32(name.encode()) % PARTS


def _of_model(name: str, built: BuiltModel) -> Recorded:
    for tier in (*TIERS, *GPU_TIERS):
        yield f"{name} | {tier}", _digests(built, (tier,))
    yield f"{name} | plan", as_json(built.plan.to_json())


def _digests(built: BuiltModel, tiers: tuple[str, ...]) -> bytes:
    """Lines of workload, tier and digest, or that there is no kernel."""
    lines = []
    for (key, program), tier in product(built.programs.items(), tiers):
        try:
            made = hashlib.sha256(compiled(program, None, tier)).hexdigest()
        except CompileError:
            made = "refused"
        lines.append(f"{key} {tier} {made}")
    return "\n".join(lines).encode()
