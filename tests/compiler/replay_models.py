"""Recorded imports: the plan of a model, and the digests of all its kernels."""

from __future__ import annotations

import hashlib
import json
import tempfile
import zlib
from itertools import product
from pathlib import Path

import onnx
from decoder_models import decoder
from operator_cases import all_cases, reference
from replay_programs import Recorded, compiled

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.importer.generation import import_generation
from nnjit_studio.errors import CompileError, ModelError, UnsupportedOpError
from nnjit_studio.model import GenerationRequest
from nnjit_studio.records.records import GPU_TIERS, TIERS
from nnjit_studio.samples.zoo import MODELS, write_model

PARTS = 3
"""Groups that models, and operator cases, are dealt to by name, so that workers share them."""
IN_HALVES = ("gpt2-prefill", "mobilenet-v2", "roberta-base")


def operators(part: int) -> Recorded:
    """All kernels of each operator case."""
    with tempfile.TemporaryDirectory() as folder:
        path, weights = Path(folder, "m.onnx"), Path(folder, "w.bin")
        for case in all_cases():
            if _part_of(case.op) != part:
                continue
            onnx.save(reference(case)[0], str(path))
            try:
                built = import_model(path, weights)
            except (UnsupportedOpError, ModelError):
                yield f"{case.name} | refused", b""
                continue
            yield f"{case.name} | Wasm", _digests(built, TIERS)
            yield f"{case.name} | WGSL", _digests(built, GPU_TIERS)


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
        path = decoder(Path(folder, "m.onnx"))
        built = import_generation(path, Path(folder, "w.bin"), GenerationRequest(rows=8))
        yield "facts", as_json(built.facts.to_json())
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
