"""A model in native ONNX Runtime, at the sizes at hand and at others."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from nnjit_studio.compiler.any_size.inputs import (
    Along,
    Axis,
    Feeds,
    Sizes,
    apart,
    input_shapes,
    lengths_of,
    replaced,
    signals_of,
    sizes_of,
    stretched,
)
from nnjit_studio.compiler.any_size.windows import (
    Place,
    Shapes,
    Slide,
    divisions,
    kernels,
    slides,
    windows,
)
from nnjit_studio.compiler.importer.obstacles import may_be_refused
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.onnx_file.budget import progress
from nnjit_studio.compiler.onnx_file.ports import dims_of, looked_up
from nnjit_studio.compiler.oracle.onnx_reference import OnnxReference
from nnjit_studio.errors import UserError

LARGEST_TABLE = 2048
"""A table is not looked at beyond this size, or a few times that at hand."""
TIMES = 4
"""A far size is so many times that at hand."""
_MUCH = 4099
"""What is one frame of a signal may be several at so many samples more."""
_CHOICES = {"TopK", "NonMaxSuppression"}
_FILLED = 0.7
"""Of an element of a batch, where a length says how much of it counts."""


class Trial:
    """A model in ONNX Runtime, run on arrays like those at hand."""

    def __init__(self, path: Path, feeds: Feeds) -> None:
        model = check.load_model(path)
        weights = {t.name for t in model.graph.initializer}
        self.rounds = any(map(_rounds, model.graph.node))
        """Whether activations are rounded to 8 bits as it runs."""
        self.chooses = any(node.op_type in _CHOICES for node in model.graph.node)
        """Whether rows of its results may be in the order of scores."""
        self.doubtful = may_be_refused(model)
        """Whether it has an operator that no size may mend."""
        ports = [p for p in model.graph.input if p.name not in weights]
        self.inputs: dict[str, tuple[Axis, ...]] = {}
        for port in ports:
            if port.type.tensor_type.HasField("shape"):
                self.inputs[port.name] = tuple(dims_of(port))
            elif port.name in feeds:
                rank = feeds[port.name].ndim
                self.inputs[port.name] = tuple(f"{port.name}.{i}" for i in range(rank))
        self._feeds = feeds
        self._reference = OnnxReference(path)
        made = [o for _, outputs in self._reference.nodes for o in outputs]
        self.tensors = list(dict.fromkeys(o for o in made if o in self._reference.tensors))
        self.outputs = [port.name for port in model.graph.output]
        held = {*self.tensors, *self.inputs}
        computed = self._shapes_of([n for n in kernels(model.graph) if n in held])
        self._windows = [w for w in windows(model.graph, computed) if w.tensor in held]
        self._divided = [d for d in divisions(model.graph) if {d.tensor, d.result} <= held]
        slid = (s for s in slides(model.graph, computed) if {s.tensor, s.result} <= held)
        parts = (
            (_number(d.tensor), _number(d.result), (Place(0, 0, d.by, d.by),))
            for d in self._divided
        )
        self.slides = (*slid, *itertools.starmap(Slide, parts))
        maps = (w.tensor for w in self._windows if w.tensor not in self.inputs)
        self._looked_at = list(dict.fromkeys((*self.outputs, *maps)))
        self.joins = any(node.op_type == "Concat" for node in model.graph.node)
        self.lengths: Along = {}
        self._doubt_names()
        self.lengths = lengths_of(self.inputs, feeds)
        """Inputs that grow with an axis of another one."""
        self.places = looked_up(model.graph)
        """Tensors of places in a table."""
        self.keep(self.places)

    def _shapes_of(self, names: Sequence[str]) -> Shapes:
        """Of tensors at the sizes at hand; none where the model does not run on these."""
        if names:
            with contextlib.suppress(UserError):
                found = self._reference.run(self._feeds, names)
                return {name: array.shape for name, array in found.items()}
        return {}

    def _doubt_names(self) -> None:
        """Where ONNX Runtime runs arrays that have several sizes at one name of the file, the name
        says nothing."""
        declared = self.inputs
        if self._feeds.keys() >= declared.keys():
            self.inputs = apart(declared, self._feeds)
            if self.inputs != declared and not self.runs(sizes_of(self.inputs, self._feeds)):
                self.inputs = declared

    @property
    def signals(self) -> set[str]:
        """Dimensions along which inputs may be signals."""
        return signals_of(self.inputs, self._feeds)

    def run(self, sizes: Sizes, names: Sequence[str] = ()) -> Shapes:
        """Shapes of the inputs, and of the named tensors or else of the outputs."""
        feeds, found = self.values(sizes, names)
        return {name: array.shape for name, array in (*feeds.items(), *found.items())}

    def looked_at(self, sizes: Sizes) -> Shapes:
        """Shapes of the inputs and of all tensors, and sizes that are divided, with quotients."""
        feeds, found = self.values(sizes, self.tensors)
        shapes: dict[str, tuple[int, ...]] = {name: array.shape for name, array in feeds.items()}
        shapes |= {name: array.shape for name, array in found.items()}
        for division in self._divided:
            pair = [found[n] for n in (division.tensor, division.result) if n in found]
            if [a.size for a in pair] == [1, 1]:
                n, result = (int(a.reshape(-1)[0]) for a in pair)
                shapes[_number(division.tensor)] = (n,)
                shapes[_number(division.result)] = (division.quotient(n, result),)
        return shapes

    def values(
        self, sizes: Sizes, names: Sequence[str] = (), share: float = 1.0
    ) -> tuple[Feeds, Feeds]:
        """The arrays that the model is run on at these sizes, and what it makes of them; lengths
        are a share of those at hand."""
        shapes = input_shapes(self.inputs, sizes)
        feeds = {n: stretched(self._feeds[n], shape) for n, shape in shapes.items()}
        for name, (other, axis) in self.lengths.items():
            part = share * shapes[other][axis] / self._feeds[other].shape[axis]
            feeds[name] = np.maximum(feeds[name] * part, 1).astype(feeds[name].dtype)
        found = self._reference.run(feeds, names or self.outputs)
        progress()
        return feeds, found

    def longer(self, example: Sizes) -> list[Sizes]:
        """Sizes with a much longer signal, where an input has nothing but one at those at hand."""
        found: list[Sizes] = []
        for name, axes in self.inputs.items():
            for axis in self.signals.intersection(axes):
                n = min(TIMES * example[axis], max(_MUCH, example[axis])) + _MUCH
                if self._feeds[name].size == example[axis] and self.runs({**example, axis: n}):
                    found.append({**example, axis: n})
        return found

    def cases(self, sizes: Sizes) -> Iterator[tuple[Feeds, Feeds]]:
        """The same with lengths as they are, and with shorter ones if the model runs on these."""
        yield self.values(sizes)
        if self.lengths:
            with contextlib.suppress(UserError):
                yield self.values(sizes, share=_FILLED)

    def ends(self, sizes: Sizes) -> dict[str, tuple[str, int, int]]:
        """Lengths of which the model refuses larger ones, each with the input and axis that it is
        counted along, and by how much the largest one that runs is off that axis."""
        feeds, _ = self.values(sizes)

        def runs(name: str, length: int) -> bool:
            given = {**feeds, name: np.full_like(feeds[name], length)}
            with contextlib.suppress(UserError):
                self._reference.run(given, self.outputs)
                return True
            return False

        found = {}
        for name, (other, axis) in self.lengths.items():
            n = feeds[other].shape[axis]
            off = next((off for off in (0, -1) if runs(name, n + off)), None)
            if off is not None and not runs(name, TIMES * n):
                found[name] = other, axis, off
        return found

    def largest(self, name: str, sizes: Sizes) -> int:
        """The largest size of a dimension that runs, the others being these."""
        low, end = sizes[name], looked_up_to(sizes[name])
        while low < end and self.runs({**sizes, name: 2 * low}):
            low *= 2
        if low < end:
            low = furthest(lambda n: self.runs({**sizes, name: n}), 0, 1, low, 2 * low)
        return min(low, end)

    def relate(self, by: Mapping[str, Axis]) -> None:
        """Write other axes in the place of dimensions."""
        self.inputs = replaced(self.inputs, by)

    def keep(self, names: Container[str]) -> None:
        """Inputs that do not grow with others."""
        self.lengths = {n: at for n, at in self.lengths.items() if n not in names}

    def runs(self, sizes: Sizes) -> bool:
        """Whether ONNX Runtime runs the model, and every window fits into its map."""
        try:
            shapes = self.run(sizes, self._looked_at)
        except UserError:
            return False
        return all(window.fits(shapes[window.tensor]) for window in self._windows)


def looked_up_to(n: int) -> int:
    """The largest size at which a table is looked at, from this one on."""
    return max(LARGEST_TABLE, TIMES * n)


def furthest(runs: Callable[[int], bool], start: int, step: int, known: int, end: int) -> int:
    """The last size that runs after ``known`` steps, which does, and before ``end``."""
    while end - known > 1:
        middle = (known + end) // 2
        known, end = (middle, end) if runs(start + middle * step) else (known, middle)
    return start + known * step


def _number(name: str) -> str:
    """What a tensor's only element is called among shapes."""
    return f"{name}()"


def _rounds(node: onnx.NodeProto) -> bool:
    """``QuantizeLinear`` and its kin, ``QLinearMatMul``, ``QGemm``, ``QAttention``."""
    return "Quantize" in node.op_type or node.op_type.startswith(("QLinear", "QGemm", "QAttention"))
