"""The plan of a model whose sizes stay open: formulas where :class:`Plan` has numbers.

Whoever runs it evaluates the formulas for the sizes of the inputs that come; nothing is compiled
then. A kernel has one variant for each remainder that its tiles may leave, and gets its extents
and strides as parameters. In JSON a size is a number or a list of ``[coefficient, atom, ...]``; an
atom is a dimension's name or ``[operation, size, size]``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from nnjit_studio.errors import UserError
from nnjit_studio.model.graph import TensorSpec
from nnjit_studio.model.plan import FoundAxis, Plan, PlanBuffer, PlanPort, PlanStep
from nnjit_studio.model.size import Atom, Dim, Size, least, most, size
from nnjit_studio.model.storage import placed

OPEN_VERSION = 6
"""Of the format of plans: newer than any that has numbers alone."""
OPEN_DOCUMENT_VERSION = 2
"""Of the format of WGSL kernels, in the same way."""
SCALARS = ("int", "float", "inverse", "quotient")
"""What a parameter is of its size: the number, or the bits of the f32 of it, of one over it, or of
it over another size."""
_DEEPEST = 16
_ONE = size(1)


def quotient(a: int, b: int) -> float:
    """One size over another; 0 where that is 0, as where a map of one pixel is scaled."""
    return a / b if b else 0.0


@dataclass(frozen=True)
class Scalar:
    """A parameter of a kernel, passed behind its pointers."""

    kind: str
    size: Size
    over: Size = _ONE
    """What a quotient is divided by; 0 where that is 0."""

    def at(self, sizes: Mapping[str, int]) -> int:
        """As the i32 that is passed."""
        n = self.size.at(sizes)
        if self.kind == "int":
            return n
        a, b = (1, n) if self.kind == "inverse" else (n, self.over.at(sizes))
        return int(struct.unpack("<i", struct.pack("<f", quotient(a, b)))[0])


@dataclass(frozen=True)
class Variant:
    """A compiled kernel and what it is called with."""

    workload: str
    scalars: tuple[Scalar, ...]
    extent: Size


@dataclass(frozen=True)
class OpenKernel:
    """The variants of a kernel, by the remainders of sizes; the last selector counts fastest."""

    selectors: tuple[tuple[Size, int], ...]
    variants: tuple[Variant, ...]

    def at(self, sizes: Mapping[str, int]) -> Variant:
        """The variant for these sizes."""
        place = 0
        for value, by in self.selectors:
            place = place * by + value.at(sizes) % by
        return self.variants[place]


@dataclass(frozen=True)
class OpenPort:
    """An input or output of the model and the buffer that holds it."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    buffer: int
    value: int | None = None
    found: FoundAxis | None = None
    most: Size | None = None
    """All three as those of a :class:`PlanPort`."""

    @property
    def buffers(self) -> tuple[int, ...]:
        """As those of a :class:`PlanPort`."""
        return (self.buffer, self.found.count) if self.found else (self.buffer,)

    def at(self, sizes: Mapping[str, int]) -> PlanPort:
        shape = tuple(n.at(sizes) for n in self.shape)
        spec = TensorSpec(self.name, shape, self.dtype)
        most = None if self.most is None else self.most.at(sizes)
        return PlanPort(spec, self.buffer, self.value, self.found, most)


@dataclass(frozen=True)
class OpenBuffer:
    """A weight at its offset, or a tensor of the arena, which gets one for each size."""

    region: str
    offset: int
    nbytes: Size
    pack: tuple[int, int] | None = None
    unit_bytes: int = 4

    def at(self, sizes: Mapping[str, int]) -> PlanBuffer:
        nbytes = self.nbytes.at(sizes)
        return PlanBuffer(self.region, self.offset, nbytes, self.pack, self.unit_bytes)


@dataclass(frozen=True)
class OpenPlan:
    """Everything the engine needs to run a model at any sizes, but kernels and weights.

    The ``workload`` of a step is a key of ``kernels``, that of one of ``gpu_steps`` names a kernel
    of a GPU. ``example`` has sizes that the model is known to run at.
    """

    name: str
    dims: tuple[Dim, ...]
    example: Mapping[str, int]
    inputs: tuple[OpenPort, ...]
    outputs: tuple[OpenPort, ...]
    buffers: tuple[OpenBuffer, ...]
    steps: tuple[PlanStep, ...]
    kernels: Mapping[str, OpenKernel]
    weights_bytes: int
    trips: tuple[Size, ...] = ()
    """Of the loops among the steps, in their order."""
    gpu_steps: tuple[PlanStep, ...] = ()
    """What a GPU runs in place of ``steps``, over the same buffers; empty where it runs these."""

    @property
    def on_gpu(self) -> tuple[PlanStep, ...]:
        """The steps of a GPU."""
        return self.gpu_steps or self.steps

    def at(self, sizes: Mapping[str, int]) -> Plan:
        """The plan at sizes of the dimensions; its steps name compiled kernels.

        Raises
        ------
        UserError
            When a size is out of range.
        """
        for dim in self.dims:
            if not dim.takes(sizes.get(dim.name, 0)):
                raise UserError(
                    f"The dimension {dim} is {sizes.get(dim.name)}.", f"It may be {dim.text}."
                )
        trips = iter(self.trips)
        chosen = {key: kernel.at(sizes).workload for key, kernel in self.kernels.items()}
        steps = tuple(
            replace(
                s,
                workload=chosen.get(s.workload, ""),
                loop=replace(s.loop, trips=next(trips).at(sizes)) if s.loop else None,
            )
            for s in self.steps
        )
        plan = Plan(
            self.name,
            tuple(port.at(sizes) for port in self.inputs),
            tuple(port.at(sizes) for port in self.outputs),
            tuple(buffer.at(sizes) for buffer in self.buffers),
            steps,
            self.weights_bytes,
            0,
        )
        return placed(plan)

    def to_json(self) -> dict[str, Any]:
        data = _json({f: getattr(self, f) for f in self.__dataclass_fields__})
        for field in ("trips", "gpu_steps"):
            if not data[field]:
                del data[field]
        return {"version": OPEN_VERSION, **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OpenPlan:
        """Inverse of :meth:`to_json`.

        Raises
        ------
        ValueError
            When a field is missing or of another type.
        """
        fields = {name: value for name, value in data.items() if name != "version"}
        ranges = msgspec.convert(data.get("dims", ()), tuple[Dim, ...])
        dims = {dim.name: dim for dim in ranges}

        made: OpenPlan = _built(cls, fields, dims)
        return made


@dataclass(frozen=True)
class OpenDispatch:
    """A dispatch of a kernel document whose counts of workgroups follow from sizes."""

    code: str
    workgroups: tuple[Size, Size, Size]
    bindings: tuple[str, ...]
    access: tuple[str, ...]
    entry: str


@dataclass(frozen=True)
class OpenDocument:
    """A WGSL kernel for any size (docs/webgpu.md).

    Its code reads ``sizes``, a vector each, from the uniform block that is bound as ``z``.
    """

    sizes: tuple[Scalar, ...]
    scratch: tuple[Size, ...]
    requires: tuple[str, ...]
    dispatches: tuple[OpenDispatch, ...]

    def at(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """The JSON of the document of one size; its code is the same."""
        dispatches = [
            asdict(d) | {"workgroups": [n.at(sizes) for n in d.workgroups]} for d in self.dispatches
        ]
        scratch = [n.at(sizes) for n in self.scratch]
        return {"scratch": scratch, "requires": list(self.requires), "dispatches": dispatches}

    def to_bytes(self) -> bytes:
        """UTF-8 JSON with sorted keys and no spaces: equal documents give equal bytes."""
        data = {"version": OPEN_DOCUMENT_VERSION}
        data |= {f: _json(getattr(self, f)) for f in self.__dataclass_fields__}
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return text.encode()

    @classmethod
    def from_json(cls, data: Mapping[str, Any], dims: Sequence[Dim]) -> OpenDocument:
        """Inverse of :meth:`to_bytes`, of which it takes the JSON.

        Raises
        ------
        ValueError
            When a field is missing or of another type.
        """
        fields = {name: value for name, value in data.items() if name != "version"}
        made: OpenDocument = _built(cls, fields, {dim.name: dim for dim in dims})
        return made


def _built(kind: Any, value: Any, dims: Mapping[str, Dim]) -> Any:
    """A value of JSON as a type of this module: msgspec's conversion, but for sizes."""
    if kind in (Size, Size | None):
        return _size(value, dims, _DEEPEST)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple and isinstance(value, list):
        kinds = inner[:1] * len(value) if inner[1:] == (...,) else inner
        if len(kinds) != len(value):
            raise ValueError(f"{value!r} has another length than {len(kinds)}")
        return tuple(_built(k, v, dims) for k, v in zip(kinds, value, strict=True))
    if origin is Mapping and isinstance(value, dict):
        return {str(key): _built(inner[1], v, dims) for key, v in value.items()}
    if is_dataclass(kind) and kind.__module__ == __name__ and isinstance(value, dict):
        hints = get_type_hints(kind)
        for name in value.keys() - hints.keys():
            raise ValueError(f"there is an unknown field {name!r}")
        make: Any = kind
        return make(**{name: _built(hints[name], v, dims) for name, v in value.items()})
    return msgspec.convert(value, kind)


def _json(value: Any) -> Any:
    if isinstance(value, Size):
        n = value.constant
        return n if n is not None else [[c, *map(_atom_json, m)] for m, c in value.terms]
    if isinstance(value, Dim):
        return asdict(value)
    if isinstance(value, PlanStep):
        step = {"op": value.op, "workload": value.workload, "args": value.args, "node": value.node}
        return step | ({"loop": asdict(value.loop)} if value.loop else {})
    if isinstance(value, Mapping):
        return {key: _json(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_json(each) for each in value]
    if hasattr(value, "__dataclass_fields__"):
        data = {name: _json(getattr(value, name)) for name in value.__dataclass_fields__}
        if isinstance(value, OpenPort):
            data = {name: each for name, each in data.items() if each is not None}
        if isinstance(value, Scalar) and value.kind != "quotient":
            del data["over"]
        return data
    return value


def _atom_json(atom: Atom) -> Any:
    return atom.name if isinstance(atom, Dim) else [atom.op, _json(atom.a), _json(atom.b)]


def _size(value: Any, dims: Mapping[str, Dim], deepest: int) -> Size:
    if isinstance(value, int):
        return size(value)
    if deepest == 0 or not isinstance(value, list):
        raise ValueError(f"{value!r} is no size")
    total = size(0)
    for term in value:
        if not isinstance(term, list) or not term or not isinstance(term[0], int):
            raise ValueError(f"{term!r} is no term of a size")
        product = size(term[0])
        for atom in term[1:]:
            product = product * _atom(atom, dims, deepest - 1)
        total = total + product
    return total


def _atom(value: Any, dims: Mapping[str, Dim], deepest: int) -> Size:
    if isinstance(value, str) and value in dims:
        return size(dims[value])
    if isinstance(value, list) and len(value) == 3:
        op, a, b = value[0], _size(value[1], dims, deepest), _size(value[2], dims, deepest)
        if op == "floordiv" and (b.constant or 0) > 0:
            return a // (b.constant or 1)
        if op in ("min", "max"):
            return least(a, b) if op == "min" else most(a, b)
    raise ValueError(f"{value!r} is no dimension and no operation on sizes")
