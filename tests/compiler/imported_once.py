"""Models whose results and whose bytes are looked at: imported and compiled once in a process.

The tests of both stand in one file each, since a file of tests stays in one worker.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from operator_cases import Case, reference

from nnjit_studio.compiler.importer import BuiltModel, import_model
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.samples.zoo import write_model


@dataclass(frozen=True)
class Imported:
    """A model, or the first line of its refusal, and the bytes of its weights."""

    built: BuiltModel | None
    weights: bytes
    refusal: str = ""
    _kernels: dict[tuple[str, str], Artifact] = field(default_factory=dict)

    def kernel(self, workload: str, tier: str) -> Artifact:
        """Of a workload as it is compiled without a candidate, for Wasm."""
        assert self.built is not None
        place = workload, tier
        if place not in self._kernels:
            self._kernels[place] = compile_program(self.built.programs[workload], None, tier)
        return self._kernels[place]

    def kernels(self, tier: str) -> dict[str, Artifact]:
        """Of all workloads."""
        assert self.built is not None
        return {key: self.kernel(key, tier) for key in self.built.programs}


def imported(write: Callable[[Path], object]) -> Imported:
    """What becomes of the file that is written."""
    with tempfile.TemporaryDirectory() as folder:
        path, weights = Path(folder, "m.onnx"), Path(folder, "w.bin")
        write(path)
        try:
            built = import_model(path, weights)
        except (UnsupportedOpError, ModelError) as e:
            return Imported(None, b"", str(e).splitlines()[0])
        return Imported(built, weights.read_bytes())


def imported_case(case: Case) -> tuple[Imported, dict[str, np.ndarray]]:
    """A case and its results; others may have its name."""
    place = case.model.SerializeToString(), *(a.tobytes() for a in case.feeds.values())
    if place not in _cases:
        model, expected = reference(case)
        _cases[place] = imported(lambda path: onnx.save(model, str(path))), expected
    return _cases[place]


_cases: dict[tuple[bytes, ...], tuple[Imported, dict[str, np.ndarray]]] = {}


@cache
def imported_toy(name: str) -> Imported:
    """A toy of the zoo."""
    return imported(lambda path: write_model(name, path, small=True))
