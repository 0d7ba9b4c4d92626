"""Files that are dropped on the window: what they are, and what it does with each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.bundle import read_bundle
from nnjit_studio.bundle.manifest import Manifest
from nnjit_studio.database.transfer import FORMAT as RECORDS
from nnjit_studio.errors import UserError
from nnjit_studio.ui.widgets import text
from nnjit_studio.ui.window.session_file import FORMAT as SESSION

MODEL, BUNDLE, DATABASE, PROFILE, TRACE, SAVED_SESSION = (
    "model", "bundle", "database", "profile", "trace", "session",
)  # fmt: skip
LIMIT_BYTES = 256 << 20
"""JSON files beyond this are not read."""
HINT = (
    "Drop a model (.onnx), a bundle (.zip), kernel records (.db, .json), a saved profile, or a "
    "session."
)


@dataclass(frozen=True)
class Dropped:
    """A file that was recognised; ``words`` say what is in it."""

    kind: str
    path: Path
    words: str = ""


def recognise(path: Path) -> Dropped:
    """What a file is, by its ending and then by what it holds; reads all of it, so not in Qt's
    thread. A bundle is verified.

    Raises
    ------
    UserError
        When it is nothing that the Studio opens, or it is damaged.
    """
    if path.suffix.lower() == ".onnx":
        return Dropped(MODEL, path)
    try:
        with path.open("rb") as file:
            head = file.read(16)
        if head.startswith(b"SQLite format 3\0"):
            return Dropped(DATABASE, path)
        if head.startswith(b"PK"):
            return Dropped(BUNDLE, path, bundle_words(path))
        if head.lstrip()[:1] in (b"{", b"[") and path.stat().st_size <= LIMIT_BYTES:
            return _json(path, json.loads(path.read_bytes()))
    except OSError as e:
        raise UserError(f"{path.name} cannot be read: {e.strerror or e}.", HINT) from e
    except (ValueError, RecursionError) as e:
        raise UserError(f"{path.name} is not valid JSON ({e}).", HINT) from e
    raise UserError(f"{path.name} is nothing that the Studio opens.", HINT)


def bundle_words(path: Path) -> str:
    """What the manifest of a whole bundle says, line by line."""
    bundle = read_bundle(path)
    manifest = bundle.manifest
    return "\n".join(f"{name}: {value}" for name, value in _facts(manifest, path).items())


def _facts(manifest: Manifest, path: Path) -> Mapping[str, str]:
    ports = {
        name: ", ".join(f"{s.name} ({text.shape(s.shape)} {s.dtype})" for s in specs)
        for name, specs in (("Inputs", manifest.inputs), ("Outputs", manifest.outputs))
    }
    tuned = ", ".join(f"{k} {v}" for k, v in manifest.tuned_on.items() if v) or "no device"
    return {
        "Model": manifest.name,
        "Written by": f"{manifest.generator}, {manifest.created}",
        **ports,
        "Wasm kernels": str(len(manifest.kernels)),
        "WebGPU kernels": str(len(manifest.gpu_kernels)),
        "Tuned on": tuned,
        "Files": f"{len(manifest.files)}, every sha256 right",
        "Size": text.nbytes(path.stat().st_size),
    }


def _json(path: Path, data: Any) -> Dropped:
    fields = data if isinstance(data, dict) else {}
    if isinstance(fields.get("traceEvents"), list):
        events = fields["traceEvents"]
        return Dropped(TRACE, path, f"a trace of {len(events):,} events")
    if fields.get("format") == RECORDS:
        return Dropped(DATABASE, path)
    if fields.get("format") == SESSION:
        return Dropped(SAVED_SESSION, path)
    if isinstance(fields.get("steps"), list):
        return Dropped(PROFILE, path)
    raise UserError(f"{path.name} is JSON, but nothing that the Studio opens.", HINT)
