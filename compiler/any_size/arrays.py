"""Arrays to try a model on, where its user gives none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.inputs import (
    Feeds,
    Sizes,
    input_shapes,
    may_be_lengths,
    sizes_of,
    stretched,
)
from nnjit_studio.compiler.any_size.runs.trial import Trial
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.onnx_file.ports import dims_of
from nnjit_studio.errors import UserError

_GUESSES = (16, 64, 224, 512, 3)
"""Sizes of text, images and sound."""
_BATCHES = (1, 2, 4, 8)
"""Sizes of an input's first dimension: a network that takes four at a time runs multiples alone."""
_LIGHT, _HEAVY = 224, 384
"""What is tried in place of sizes from here on: a picture of 1280 pixels runs for 30 times as
long."""
_LINE = {2: 48, 3: 192}
"""Pixels of a line of text by the axes of an image, tried first: in smaller ones a window may be
larger than the map that it slides over."""

_PLACES, _DOUBLINGS = 8, 17
"""Of windows along a signal, and how often its length is doubled until there are so many."""


def open_dims(path: Path) -> tuple[str, ...]:
    """Names of the dimensions of inputs that the file leaves open."""
    dims = (d for port in _ports(path) for d in dims_of(port))
    return tuple(dict.fromkeys(d for d in dims if isinstance(d, str)))


def made_arrays(path: Path) -> Feeds:
    """Arrays of some size that ONNX Runtime runs the model on: ones, and seeded numbers.

    Raises
    ------
    UserError
        When none were found.
    """
    ports, trial = _ports(path), None
    for batch, guess in product(_BATCHES, _GUESSES):
        sizes: dict[str, int] = {}
        for port in ports:
            for axis, dim in enumerate(dims_of(port)):
                if isinstance(dim, str):
                    sizes.setdefault(dim, _size(port, axis, guess) if axis else batch)
        trial = trial or Trial(path, _drawn(ports, sizes))
        # A mask may cover a past and one more.
        lengths = sorted({n for n in sizes.values() if n > 1})
        further = ({dim: n + 1} for dim in sizes if sizes[dim] > 1 for n in lengths)
        for more in ({}, *further):
            if trial.runs({**sizes, **more}):
                sizes = _with_places(trial, {**sizes, **more})
                return _with_lengths(path, trial, _drawn(ports, sizes))
    raise UserError(
        "ONNX Runtime runs the model at none of the sizes that were tried.",
        "Give arrays that it runs on with --inputs.",
    )


def _with_places(trial: Trial, sizes: dict[str, int]) -> dict[str, int]:
    """Longer signals, until windows with strides have several places along them: where one alone
    fits, all that follows is as it is at no other length."""
    for name in sorted(trial.signals & sizes.keys()):
        for _ in range(_DOUBLINGS):
            more = {**sizes, name: 2 * sizes[name]}
            try:
                here, there = trial.looked_at(sizes), trial.looked_at(more)
            except UserError:
                break
            if not any(slide.has_few(here, there, _PLACES) for slide in trial.slides):
                break
            sizes = more
    return sizes


def _with_lengths(path: Path, trial: Trial, feeds: Feeds) -> Feeds:
    """With as much as there is where whole numbers may tell how much of another input counts, if
    the model runs on that."""
    told: set[str] = set()
    for name, other, axis in may_be_lengths(trial.inputs, feeds):
        if name not in trial.places | told:
            given = {**feeds, name: np.full_like(feeds[name], feeds[other].shape[axis])}
            tried = Trial(path, given)
            feeds = given if tried.runs(sizes_of(tried.inputs, given)) else feeds
            told.add(name)
    return feeds


def _drawn(ports: Sequence[onnx.ValueInfoProto], sizes: Sizes) -> Feeds:
    rng, feeds = np.random.default_rng(0), {}
    for port in ports:
        shape = [d if isinstance(d, int) else sizes[d] for d in dims_of(port)]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        drawn = rng.uniform(-1, 1, shape) if dtype.kind == "f" else np.ones(shape)
        feeds[port.name] = drawn.astype(dtype)
    return feeds


def fitting(path: Path, feeds: Feeds) -> Feeds:
    """Arrays like these that ONNX Runtime runs the model on; none where it does not run on these.

    A mask that is longer than the past and one more runs too, without any effect of its length: it
    gets the length at which both can grow together. Signals may become longer.
    """
    trial = Trial(path, feeds)
    if not feeds.keys() >= trial.inputs.keys():
        return {}
    sizes = sizes_of(trial.inputs, feeds)
    if not trial.runs(sizes):
        return {}
    lengths = sorted(set(sizes.values()))
    for dim, n in product(sizes, lengths):
        least = {**sizes, dim: n + 1}
        if n + 1 < sizes[dim] and trial.runs(least) and not trial.runs({**sizes, dim: n}):
            sizes = least
    shapes = input_shapes(trial.inputs, _with_places(trial, sizes))
    return _with_lengths(path, trial, {n: _resized(feeds[n], shape) for n, shape in shapes.items()})


def _resized(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Cut or repeated; floats are drawn anew where more are wanted."""
    if array.dtype.kind == "f" and math.prod(shape) > array.size:
        return np.random.default_rng(0).uniform(-1, 1, shape).astype(array.dtype)
    return np.resize(array, shape)


def lighter(path: Path, feeds: Feeds) -> Feeds:
    """Smaller pictures to find out with what other sizes do, where ONNX Runtime runs the model on
    such; else these."""
    rank = 1 + max(_LINE)
    if not any(a.ndim == rank and max(a.shape[1:]) > _HEAVY for a in feeds.values()):
        return feeds
    trial = Trial(path, feeds)
    sizes = sizes_of(trial.inputs, feeds)
    pictures = [axes for axes in trial.inputs.values() if len(axes) == rank]
    sides = {axis for axes in pictures for axis in axes[1:] if isinstance(axis, str)}
    light = {dim: _LIGHT if dim in sides and n > _HEAVY else n for dim, n in sizes.items()}
    if light == sizes or not trial.runs(light):
        return feeds
    shapes = input_shapes(trial.inputs, light)
    return {name: stretched(feeds[name], shape) for name, shape in shapes.items()}


def _ports(path: Path) -> list[onnx.ValueInfoProto]:
    model = check.load_model(path)
    weights = {t.name for t in model.graph.initializer}
    return [p for p in model.graph.input if p.name not in weights]


def _size(port: onnx.ValueInfoProto, axis: int, guess: int) -> int:
    image = len(dims_of(port)) == 1 + max(_LINE)
    return _LINE.get(axis, guess) if image and guess == _GUESSES[0] else guess
