"""Files that are written: modules, the loader that chooses between them, the certificate."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.errors import UserError
from nnjit_studio.support.files import replacing

_PROBE = (
    b"\0asm\1\0\0\0\x01\x05\x01\x60\0\x01\x7b\x03\x02\x01\0\x0a\x13\x01\x11\0"
    b"\x41\0\xfd\x0f\x41\0\xfd\x0f\x41\0\xfd\x0f\xfd\x85\x02\x0b"
)
"""A module with one ``f32x4.relaxed_madd``."""
_LOADER = """\
// Gives the address of the module for this engine: with relaxed SIMD where the engine has it.
// ONNX Runtime Web: ort.env.wasm.wasmPaths = {{ wasm: wasmUrl }};
const probe = new Uint8Array([{probe}]);
export const relaxed = WebAssembly.validate(probe);
const plainUrl = new URL("./{plain}", import.meta.url);
const relaxedUrl = new URL("./{relaxed}", import.meta.url);
export const wasmUrl = (relaxed ? relaxedUrl : plainUrl).href;
"""
_PLAIN_LOADER = """\
// Gives the address of the module.
// ONNX Runtime Web: ort.env.wasm.wasmPaths = {{ wasm: wasmUrl }};
export const wasmUrl = new URL("./{plain}", import.meta.url).href;
"""


@dataclass(frozen=True)
class Outputs:
    """Where the files go; ``relaxed`` is written with fused multiply-adds only."""

    plain: Path
    relaxed: Path
    loader: Path
    certificate: Path


def check_new(file: Path, out: Path) -> None:
    """Refuse what is no name of a module, or would replace the original.

    Raises
    ------
    UserError
    """
    if out.suffix != ".wasm":
        raise UserError(f"{str(out)!r} is no name of a module.", "Give one that ends in .wasm.")
    if os.path.realpath(out) == os.path.realpath(file):
        raise UserError(f"{str(out)!r} is the original itself.", "Give another file with -o.")


def outputs_for(file: Path, out: Path | None) -> Outputs:
    """The files for an output, by default ``NAME.turbo.wasm`` beside the original.

    Raises
    ------
    UserError
        When it would replace the original.
    """
    plain = out or file.with_suffix(".turbo.wasm")
    check_new(file, plain)
    stem = plain.with_suffix("")
    return Outputs(
        plain,
        stem.with_name(f"{stem.name}-relaxed.wasm"),
        stem.with_name(f"{stem.name}.loader.mjs"),
        stem.with_name(f"{stem.name}.certificate.json"),
    )


def loader(outputs: Outputs, relaxed: bool) -> str:
    """The text of the loader."""
    if not relaxed:
        return _PLAIN_LOADER.format(plain=outputs.plain.name)
    return _LOADER.format(
        probe=", ".join(map(str, _PROBE)), plain=outputs.plain.name, relaxed=outputs.relaxed.name
    )


def write(outputs: Outputs, modules: Sequence[bytes], certificate: dict[str, Any]) -> None:
    """Write all files, each whole or not at all; the second module is the relaxed one."""
    outputs.plain.parent.mkdir(parents=True, exist_ok=True)
    contents = {
        **dict(zip((outputs.plain, outputs.relaxed), modules, strict=False)),
        outputs.loader: loader(outputs, len(modules) > 1).encode(),
        outputs.certificate: (json.dumps(certificate, indent=1, allow_nan=False) + "\n").encode(),
    }
    for path, data in contents.items():
        with replacing(path) as part:
            part.write_bytes(data)
