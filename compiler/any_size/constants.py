"""Constants whose size depends on open dimensions, because an import folded them at its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.errors import ModelError
from nnjit_studio.model import NUMPY_DTYPES


@dataclass(frozen=True)
class Repeated:
    """Equal along the axes that vary: what an Expand to an open dimension leaves."""

    base: NDArray[Any]

    def at(self, shape: Sequence[int]) -> NDArray[Any]:
        return np.ascontiguousarray(np.broadcast_to(self.base, shape))


def made_constants(samples: Sequence[BuiltModel], files: Sequence[Path]) -> Mapping[int, Repeated]:
    """How constants that differ between imports follow from their shapes, by plan buffer.

    Raises
    ------
    ModelError
        When one follows from its shape in another way than these.
    """
    made: dict[int, Repeated] = {}
    contents = [np.fromfile(file, np.uint8) for file in files]
    first = samples[0].plan
    for i, buffer in enumerate(first.buffers):
        if buffer.region != "weight" or any(i >= len(s.plan.buffers) for s in samples):
            continue
        raw = [
            content[(at := s.plan.buffers[i]).offset : at.offset + at.nbytes]
            for s, content in zip(samples, contents, strict=True)
        ]
        if all(np.array_equal(raw[0], other) for other in raw[1:]):
            continue
        arrays = [_array(s, i, data) for s, data in zip(samples, raw, strict=True)]
        made[i] = _repeated(arrays)
    return made


def _array(built: BuiltModel, buffer: int, raw: NDArray[np.uint8]) -> NDArray[Any]:
    for step in built.plan.steps:
        if step.op == "call" and buffer in step.args:
            held = built.programs[step.workload].buffers[step.args.index(buffer)]
            return raw.view(NUMPY_DTYPES[held.dtype]).reshape(held.shape)
    return raw


def _repeated(samples: Sequence[NDArray[Any]]) -> Repeated:
    base = samples[0]
    for axis, sizes in enumerate(zip(*(s.shape for s in samples), strict=False)):
        if len(set(sizes)) > 1:
            base = base.take([0], axis)
    found = Repeated(base)
    for sample in samples:
        if sample.ndim != base.ndim or not np.array_equal(found.at(sample.shape), sample):
            raise ModelError(
                "The model cannot be compiled for any size: it holds a constant of "
                f"{list(sample.shape)} that was computed from the sizes.",
                "Fix its sizes with --dim.",
            )
    return found
