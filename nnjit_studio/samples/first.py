"""A sample model for the first minutes: written once, then kept in the user's cache."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import platformdirs

from nnjit_studio.errors import UserError
from nnjit_studio.samples.minilm import PACKAGE, write_minilm
from nnjit_studio.samples.zoo import write_model

TRAINED, SEEDED = "minilm", "vit-tiny"
WORDS = {
    TRAINED: "all-MiniLM-L6-v2, a sentence encoder with its trained weights, 90 MB",
    SEEDED: "ViT-tiny, classifies pictures, with seeded weights, 23 MB",
    "mobilenet-v2": "MobileNetV2, classifies pictures, with seeded weights, 14 MB",
}
"""Samples that a window offers."""


def sample_name() -> str:
    """``minilm`` with trained weights where its packages are installed, else ``vit-tiny``."""
    there = all(importlib.util.find_spec(name) for name in (PACKAGE, "safetensors"))
    return TRAINED if there else SEEDED


def sample_names() -> tuple[str, ...]:
    """Those of :data:`WORDS` that can be written here, the first one to try first."""
    return tuple(name for name in WORDS if name != TRAINED or sample_name() == TRAINED)


def sample_path(name: str, folder: Path | None = None) -> Path:
    """Where a sample is kept, once it was written."""
    folder = folder or Path(platformdirs.user_cache_dir("nnjit-studio", appauthor=False))
    return folder / f"{name}.onnx"


def sample_model(
    on_phase: Callable[[str], None], folder: Path | None = None, name: str = ""
) -> Path:
    """A model to try the Studio on: written once, then kept in the user's cache.

    ``name`` is one of :func:`sample_names`, by default that to try first.

    Raises
    ------
    UserError
        When it cannot be written.
    """
    name = name or sample_name()
    path = sample_path(name, folder)
    if not path.exists():
        on_phase("writing the sample model")
        # Not `files.replacing`: what can be written again need not wait for the disk.
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_minilm(part) if name == TRAINED else write_model(name, part, None)
            part.replace(path)
        except OSError as e:
            raise UserError(
                f"The sample model {path} cannot be written: {e.strerror or e}.",
                "Free some space, or write it elsewhere with nnjit sample.",
            ) from e
        finally:
            part.unlink(missing_ok=True)
    return path
