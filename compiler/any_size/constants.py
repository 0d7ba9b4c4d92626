"""Constants whose size depends on open dimensions, because an import folded them at its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.refusal import COMPUTED, DIFFERENT_STEPS, refused
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.model import NUMPY_DTYPES


@dataclass(frozen=True)
class Repeated:
    """Equal along the axes that vary: what an Expand to an open dimension leaves."""

    base: NDArray[Any]

    def at(self, shape: Sequence[int]) -> NDArray[Any]:
        return np.ascontiguousarray(np.broadcast_to(self.base, shape))

    @property
    def least(self) -> NDArray[Any]:
        """The base without further repetitions."""
        base = self.base
        for axis in range(base.ndim):
            one = base.take([0], axis)
            base = one if np.array_equal(np.broadcast_to(one, base.shape), base) else base
        return base


@dataclass(frozen=True)
class Prefix:
    """The first rows of a table, such as one of positions; only axes of extent 1 are outside."""

    base: NDArray[Any]
    axis: int

    def at(self, shape: Sequence[int]) -> NDArray[Any]:
        return np.ascontiguousarray(self.base[tuple(slice(n) for n in shape)])


Made = Repeated | Prefix


def made_constants(samples: Sequence[BuiltModel], files: Sequence[Path]) -> Mapping[int, Made]:
    """How constants that differ between imports follow from their shapes, by plan buffer.

    Raises
    ------
    ModelError
        When one follows from its shape in another way than these.
    """
    made: dict[int, Made] = {}
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
        made[i] = _follows(arrays)
    return made


def _array(built: BuiltModel, buffer: int, raw: NDArray[np.uint8]) -> NDArray[Any]:
    for step in built.plan.steps:
        if step.op == "call" and buffer in step.args:
            held = built.programs[step.workload].buffers[step.args.index(buffer)]
            return raw.view(NUMPY_DTYPES[held.dtype]).reshape(held.shape)
    return raw


def _follows(samples: Sequence[NDArray[Any]]) -> Made:
    longest = max(samples, key=lambda sample: sample.size)
    base, varying = samples[0], []
    for axis, sizes in enumerate(zip(*(s.shape for s in samples), strict=False)):
        if len(set(sizes)) > 1:
            base = base.take([0], axis)
            varying.append(axis)
    ways: list[Made] = [Repeated(base)]
    if len(varying) == 1 and all(n == 1 for n in base.shape[: varying[0]]):
        ways.append(Prefix(longest, varying[0]))
    for way in ways:
        if all(s.ndim == base.ndim and np.array_equal(way.at(s.shape), s) for s in samples):
            return way
    raise refused(f"it holds a constant of {list(longest.shape)} {COMPUTED}")


def outline(built: BuiltModel) -> tuple[object, ...]:
    """The number of steps, and what each buffer is."""
    return (len(built.plan.steps), *(buffer.region for buffer in built.plan.buffers))


def whole_tables(
    made: Mapping[int, Made], first: BuiltModel, largest: BuiltModel, file: Path
) -> dict[int, Made]:
    """The constants with whole tables, from an import at the largest sizes.

    Raises
    ------
    ModelError
        When what was found of a table is not the beginning of it, or that import has other steps
        than the first one.
    """
    if outline(largest) != outline(first):
        raise refused(DIFFERENT_STEPS)
    content = np.fromfile(file, np.uint8)
    whole = dict(made)
    for i, part in made.items():
        if isinstance(part, Prefix):
            held = largest.plan.buffers[i]
            array = _array(largest, i, content[held.offset : held.offset + held.nbytes])
            found = _follows((part.base, array))
            if not isinstance(found, Prefix):
                raise refused("a table changes with its length")
            whole[i] = found
    return whole
