"""Static shapes of the inputs, from the model and the user; the error names what is missing."""

from __future__ import annotations

from collections.abc import Iterable

import onnx
from onnx import TensorProto

from nnjit_studio.compiler.onnx_file.ports import WIDER, dims_of
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.model import GivenShapes

_KNOWN = (
    TensorProto.UNDEFINED, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64,
    TensorProto.INT32, TensorProto.INT8, TensorProto.UINT8, TensorProto.BOOL, *WIDER,
)  # fmt: skip
"""Dtypes of ports; some become wider or narrower later."""
_TEXT, _PICTURE, _SOUND, _PICTURE_RANK = 128, 224, 512, 4
"""Sizes of examples: tokens, pixels, samples (32 ms at 16 kHz)."""


def fix_input_shapes(model: onnx.ModelProto, given: GivenShapes) -> dict[str, tuple[int, ...]]:
    """Shapes of the graph's inputs that are not initialisers; the model's inputs get them too.

    Raises
    ------
    ModelError
        When a dimension stays open, or what was given does not fit the model.
    """
    weights = {t.name for t in model.graph.initializer}
    ports = [p for p in model.graph.input if p.name not in weights]
    _check_kinds("input", ports)
    _check_kinds("output", model.graph.output)
    _check_names(ports, given)
    shapes: dict[str, tuple[int, ...]] = {}
    still_open = []
    dims = {**_dims_of_shapes(ports, given), **given.dims}
    for port in ports:
        shape = _shape(port, given, dims)
        if shape is None:
            still_open.append(port)
        else:
            shapes[port.name] = shape
    if still_open:
        raise _question(still_open, dims)
    for port in ports:
        fixed = port.type.tensor_type.shape
        del fixed.dim[:]
        for n in shapes[port.name]:
            fixed.dim.add().dim_value = n
        port.type.tensor_type.shape.CopyFrom(fixed)
    return shapes


def _check_kinds(what: str, ports: Iterable[onnx.ValueInfoProto]) -> None:
    for port in ports:
        kind, dtype = port.type.WhichOneof("value"), port.type.tensor_type.elem_type
        hint = "docs/limits.md lists the types that are."
        if kind == "tensor_type":
            names = TensorProto.DataType
            kind = "" if dtype in _KNOWN else names.Name(dtype).lower()
        elif kind is not None:
            kind = f"no tensor (of {kind.replace('_', ' ')})"
            hint = (
                "Export it with tensors alone; skl2onnx does so for classifiers with zipmap=False."
            )
        if kind:
            raise UnsupportedOpError(
                f"The {what} {port.name!r} is {kind}, which is not supported.", hint
            )


def _check_names(ports: list[onnx.ValueInfoProto], given: GivenShapes) -> None:
    inputs = [p.name for p in ports]
    for name in given.shapes:
        if name not in inputs:
            raise ModelError(
                f"The model has no input {name!r}.", f"Its inputs are {', '.join(inputs)}."
            )
    names = list(dict.fromkeys(d for p in ports for d in dims_of(p) if isinstance(d, str)))
    for name in given.dims:
        if name not in names:
            known = f"Its open dimensions are {', '.join(names)}." if names else "Leave out --dim."
            raise ModelError(f"The model has no open dimension {name!r}.", known)


def _dims_of_shapes(ports: list[onnx.ValueInfoProto], given: GivenShapes) -> dict[str, int]:
    """Named dimensions that a whole shape of some input settles for all of them."""
    found: dict[str, int] = {}
    for source in (given.hints, given.shapes):
        for port in ports:
            for dim, n in zip(dims_of(port), source.get(port.name, ()), strict=False):
                if isinstance(dim, str):
                    if source is given.hints and dim not in given.dims:
                        _check_hint(port.name, dim, source[port.name], found.get(dim, n), n)
                    found[dim] = n
    return found


def _check_hint(name: str, dim: str, shape: tuple[int, ...], known: int, n: int) -> None:
    """Arrays at hand agree on the size of a dimension, which has at least one element."""
    if n < 1:
        raise ModelError(f"The input {name!r} is empty.", "Every size is at least 1.")
    if n != known:
        raise ModelError(
            f"The input {name!r} has the shape {list(shape)}, but {dim} is {known}.",
            "Give arrays whose sizes agree.",
        )


def _shape(
    port: onnx.ValueInfoProto, given: GivenShapes, dims: dict[str, int]
) -> tuple[int, ...] | None:
    """None when something is open."""
    held = dims_of(port)
    whole = given.shapes.get(port.name)
    hint = given.hints.get(port.name)
    if not port.type.tensor_type.HasField("shape"):
        return whole or hint
    if whole is not None:
        fits = len(whole) == len(held) and all(
            not isinstance(d, int) or d == n for d, n in zip(held, whole, strict=True)
        )
        if not fits:
            raise ModelError(
                f"The input {port.name!r} cannot have the shape {list(whole)}: "
                f"the model says {_text(held)}.",
                "Correct --shape.",
            )
        return whole
    by_name = [d if isinstance(d, int) else dims.get(d, 0) for d in held]
    if hint is not None and len(hint) == len(held):
        by_name = [n or h for n, h in zip(by_name, hint, strict=True)]
    return tuple(by_name) if all(by_name) else None


def _text(dims: list[int | str]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _question(ports: list[onnx.ValueInfoProto], dims: dict[str, int]) -> ModelError:
    """Names every open input, and the very options that would settle it."""
    open_inputs = ", ".join(
        f"{p.name} {_text(dims_of(p))}"
        if p.type.tensor_type.HasField("shape")
        else f"{p.name} of any rank"
        for p in ports
    )
    places: dict[str, tuple[onnx.ValueInfoProto, int]] = {}
    for port in ports:
        for axis, dim in enumerate(dims_of(port)):
            if isinstance(dim, str) and dim not in dims:
                places.setdefault(dim, (port, axis))
    options = [f"--dim {name}={_example(name, *place)}" for name, place in places.items()]
    options += [f"--shape {p.name}=1" for p in ports if not p.type.tensor_type.HasField("shape")]
    return ModelError(
        f"The model has inputs of open shape: {open_inputs}.",
        f"Give the numbers, as in {' '.join(options)}, or arrays with --inputs.",
    )


def _example(name: str, port: onnx.ValueInfoProto, axis: int) -> int:
    """A size that most models of such an input take: one of text, of a picture, or of a window of
    sound, which convolutions slide over."""
    low, rank = name.lower(), len(dims_of(port))
    floats = port.type.tensor_type.elem_type in (TensorProto.FLOAT, TensorProto.FLOAT16)
    if floats and axis and rank == _PICTURE_RANK and "channel" not in low:
        return _PICTURE
    if floats and axis == 1 and rank == 1 + axis:
        return _SOUND
    return _TEXT if any(word in low for word in ("seq", "len", "token")) else 1
