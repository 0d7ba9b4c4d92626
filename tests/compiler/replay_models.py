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
from imported_once import Imported, imported, imported_case, imported_toy
from onnx_models import save
from operator_cases import Case, all_cases, case, draw, reference
from replay_programs import Recorded, compiled
from test_fold_views import attention

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.generation import import_generation
from nnjit_studio.errors import CompileError
from nnjit_studio.model import GenerationRequest
from nnjit_studio.records import GPU_TIERS, TIERS
from nnjit_studio.samples.zoo import MODELS, write_model

PARTS = 3
"""Groups that models, and operator cases, are dealt to by name, so that workers share them."""
IN_HALVES = ("gpt2-prefill", "mobilenet-v2", "roberta-base")


def operators(part: int) -> Recorded:
    """All kernels of each operator case."""
    for each in all_cases():
        if _part_of(each.op) == part:
            yield from _of_case(each.name, imported_case(each)[0])


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
    yield from _of_model("tiles", imported(_convolution))
    yield from _of_model("heads", imported(lambda path: attention(path, size=16)))


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
    for each in cases:
        model, _ = reference(each)
        found = imported(lambda path, model=model: onnx.save(model, str(path)))
        yield from _of_case(each.name, found)


def _of_case(name: str, found: Imported) -> Recorded:
    if found.built is None:
        yield f"{name} | refused", b""
        return
    yield f"{name} | Wasm", _digests(found, TIERS)
    yield f"{name} | WGSL", _digests(found, GPU_TIERS)


def models(part: int) -> Recorded:
    """Toys of the zoo, some with their weights in f16 too."""
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            if _part_of(name) != part:
                continue
            yield from _of_model(name, imported_toy(name))
            if name in IN_HALVES:
                path = write_model(name, Path(folder, "m.onnx"), small=True)
                half = import_model(path, Path(folder, "w.bin"), half_weights=True)
                yield from _of_model(f"{name} in f16", Imported(half, b""))


def generation() -> Recorded:
    """The two plans of a decoder, over one cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = decoder(Path(folder, "m.onnx"), depth=16)
        built = import_generation(path, Path(folder, "w.bin"), GenerationRequest(rows=8))
        yield "facts", as_json(asdict(built.facts))
        yield from _of_model("decode", Imported(built.decode, b""))
        assert built.prefill is not None
        yield from _of_model("prefill", Imported(built.prefill, b""))


def as_json(data: object) -> bytes:
    """Equal data give equal bytes."""
    return json.dumps(data, sort_keys=True).encode()


def _part_of(name: str) -> int:
    return zlib.crc32(name.encode()) % PARTS


def _of_model(name: str, found: Imported) -> Recorded:
    assert found.built is not None
    for tier in (*TIERS, *GPU_TIERS):
        yield f"{name} | {tier}", _digests(found, (tier,))
    yield f"{name} | plan", as_json(found.built.plan.to_json())


def _digests(found: Imported, tiers: tuple[str, ...]) -> bytes:
    """Lines of workload, tier and digest, or that there is no kernel."""
    assert found.built is not None
    lines = []
    for (key, program), tier in product(found.built.programs.items(), tiers):
        try:
            wasm = tier in TIERS
            data = found.kernel(key, tier).data if wasm else compiled(program, None, tier)
            made = hashlib.sha256(data).hexdigest()
        except CompileError:
            made = "refused"
        lines.append(f"{key} {tier} {made}")
    return "\n".join(lines).encode()
