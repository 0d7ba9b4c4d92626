"""Reading of an untrusted ONNX file, with one sentence for every way it can be wrong.

Runs in the compile process. Nothing outside the model's own folder is read.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from nnjit_studio.compiler.onnx_file.arrays import array_of, load_external, load_mapped
from nnjit_studio.errors import ModelError, UnsupportedOpError

MAX_NODES = 200_000
WASM_BYTES = 4 * 2**30
"""The address space of 32-bit Wasm, in bytes."""
_BITS = {onnx.TensorProto.INT4: 4, onnx.TensorProto.UINT4: 4}
_ONNX, RUNTIME = ("", "ai.onnx"), "com.microsoft"
DOMAINS = (*_ONNX, RUNTIME)
"""Domains whose operators have converters; the last one is ONNX Runtime's."""


def load_model(path: Path) -> onnx.ModelProto:
    """The parsed and checked model with its external data in place.

    Raises
    ------
    ModelError
        Not there, not ONNX, truncated, or external data that is missing, too
        short or outside the model's folder.
    """
    try:
        model = onnx.load(str(path), load_external_data=False)
    except FileNotFoundError as e:
        raise ModelError(f"There is no file {path.name!r}.", "Check the path.") from e
    except OSError as e:
        raise ModelError(
            f"{path.name!r} cannot be read: {e.strerror}.", "Check its permissions."
        ) from e
    except MemoryError:
        raise
    except Exception as e:  # the protobuf runtimes raise types of their own
        raise ModelError(
            f"{path.name!r} is not an ONNX model, or its end is missing.",
            "Export or download it again.",
        ) from e
    if not model.graph.node:
        raise ModelError(
            f"{path.name!r} is not an ONNX model.", "Choose a file with an .onnx graph."
        )
    if len(model.graph.node) > MAX_NODES:
        raise ModelError(f"The model has more than {MAX_NODES} nodes.", "Split it.")
    _check_external_data(model, path)
    _check_fits(model)
    changed = _in_order(model.graph) | _name_domains(model)
    try:
        onnx.checker.check_model(_without_external(model) if changed else str(path))
        load_external(list(_tensors(model.graph)), path.parent)
    except Exception as e:
        reason = str(e).strip().splitlines()[0][:200]
        raise ModelError(
            f"{path.name!r} is not a valid ONNX model: {reason}", "Export it again."
        ) from e
    return model


def _name_domains(model: onnx.ModelProto) -> bool:
    """Give nodes of ONNX Runtime's own operators its domain; whether any was without.

    Its tools write some of them into ONNX's domain, where no version of ONNX has them.
    """
    found = False
    opset = max((o.version for o in model.opset_import if o.domain in _ONNX), default=1)
    for node in model.graph.node:
        unknown = node.domain in _ONNX and not onnx.defs.has(node.op_type, opset, "")
        if unknown and node.op_type in _runtime_operators():
            node.domain, found = RUNTIME, True
    if found and not any(o.domain == RUNTIME for o in model.opset_import):
        model.opset_import.add(domain=RUNTIME, version=1)
    return found


@cache
def _runtime_operators() -> frozenset[str]:
    """Operators that ONNX Runtime has beyond those of ONNX."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    schemas = get_all_operator_schema()
    return frozenset(s.name for s in schemas if s.domain == RUNTIME or not onnx.defs.has(s.name))


def _without_external(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with weights that stand in files of their own as inputs, for the checker."""
    if not _external(model):
        return model
    light = onnx.ModelProto()
    light.CopyFrom(model)
    tensors = list(light.graph.initializer)
    del light.graph.initializer[:]
    ports = {port.name for port in light.graph.input}
    for tensor in tensors:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            light.graph.initializer.append(tensor)
        elif tensor.name not in ports:
            port = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            light.graph.input.append(port)
    return light


def node_name(node: onnx.NodeProto) -> str:
    """The name of a node, or of its first output where it has none."""
    return str(node.name or next(iter(node.output), ""))


def _check_fits(model: onnx.ModelProto) -> None:
    """Refuse, by the sizes in the file alone, weights that no page can hold."""
    total = sum(
        math.prod(t.dims) * _BITS.get(t.data_type, 8 * _item_bytes(t.data_type)) // 8
        for t in _tensors(model.graph)
    )
    check_memory(total, "weights alone")


def check_memory(nbytes: int, what: str) -> None:
    """Refuse a model that does not fit into a Wasm memory.

    Raises
    ------
    ModelError
    """
    if nbytes > WASM_BYTES:
        raise ModelError(
            f"The model's {what} take {nbytes / 2**30:.1f} GiB; "
            f"a page's memory holds {WASM_BYTES / 2**30:g} GiB.",
            "Use weights of fewer bits, such as 4-bit blocks (MatMulNBits), or a smaller model.",
        )


def _item_bytes(dtype: int) -> int:
    try:
        return int(onnx.helper.tensor_dtype_to_np_dtype(dtype).itemsize)
    except (KeyError, TypeError):
        return 1


def _external(model: onnx.ModelProto) -> bool:
    return any(t.data_location == onnx.TensorProto.EXTERNAL for t in _tensors(model.graph))


def _in_order(graph: onnx.GraphProto) -> bool:
    """Move nodes behind those that they read; whether any had to be moved.

    ONNX Runtime takes them in any order, the ONNX checker does not.
    """
    waiting = {name for node in graph.node for name in node.output if name}
    rest, order = list(graph.node), []
    while rest:
        later = []
        for node in rest:
            if any(name in waiting for name in _reads(node)):
                later.append(node)
            else:
                order.append(node)
                waiting.difference_update(node.output)
        if len(later) == len(rest):
            return False  # a cycle: the checker names it
        rest = later
    moved = any(a is not b for a, b in zip(order, graph.node, strict=True))
    if moved:
        held = [onnx.NodeProto.FromString(node.SerializeToString()) for node in order]
        del graph.node[:]
        graph.node.extend(held)
    return moved


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names that a node needs, those of its subgraphs included."""
    yield from node.input
    for attribute in node.attribute:
        for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            made = {name for n in inner.node for name in n.output} | {i.name for i in inner.input}
            outputs = (o.name for o in inner.output)
            for name in (*(r for n in inner.node for r in _reads(n)), *outputs):
                if name not in made:
                    yield name


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of a graph, those of its subgraphs included."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors
            for inner in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _tensors(inner)


def _check_external_data(model: onnx.ModelProto, path: Path) -> None:
    folder = path.parent.resolve()
    for tensor in _tensors(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entry = {e.key: e.value for e in tensor.external_data}
        location = entry.get("location", "")
        file = (folder / location).resolve()
        if not location or not file.is_relative_to(folder):
            raise ModelError(
                f"The weight {tensor.name!r} points outside the model's folder ({location!r}).",
                "Keep external data beside the model; files elsewhere are never read.",
            )
        if not file.is_file():
            raise ModelError(
                f"The external data file {location!r} of weight {tensor.name!r} is missing.",
                "Put it into the model's folder.",
            )
        try:
            end = int(entry.get("offset", 0)) + int(entry.get("length", 0))
        except ValueError as e:
            raise ModelError(
                f"The weight {tensor.name!r} has a broken external data entry.", "Export it again."
            ) from e
        if file.stat().st_size < end:
            raise ModelError(
                f"The external data file {location!r} is too short for weight {tensor.name!r}.",
                "Copy it again; its end is missing.",
            )


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its local functions inlined."""
    if not model.functions:
        return model
    from onnx import inliner

    return inliner.inline_local_functions(model)


def check_operators(model: onnx.ModelProto, supported: Collection[str]) -> None:
    """Name the first node whose operator has no converter.

    An operator of a domain that the importer does not know has none, whatever its name.

    Raises
    ------
    UnsupportedOpError
        With the operator, its domain and the node that holds it.
    """
    for node in model.graph.node:
        if node.op_type not in supported or node.domain not in DOMAINS:
            name = node_name(node) or "unnamed"
            if node.domain == RUNTIME:
                raise UnsupportedOpError(
                    f"ONNX Runtime's own operator {node.op_type} (node {name!r}) is not supported "
                    "yet.",
                    "Export the model in ONNX's operators, without ONNX Runtime's optimisations.",
                )
            domain = f" (domain {node.domain})" if node.domain not in _ONNX else ""
            raise UnsupportedOpError(
                f"The operator {node.op_type}{domain} of node {name!r} is not supported.",
                "Replace it in the exported model; docs/limits.md lists what is missing.",
            )


def fold_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with computed but constant shapes folded, by ONNX Runtime's basic level.

    Returns the model itself when ONNX Runtime does not take it.
    """
    import tempfile

    import onnxruntime

    load_mapped(model)

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "folded.onnx")
        try:
            onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            return onnx.load(options.optimized_model_filepath)
        except Exception:
            return model


def consumers_of_weights(model: onnx.ModelProto) -> Mapping[str, tuple[str, ...]]:
    """For each initialiser, the names of the nodes that read it."""
    found: dict[str, list[str]] = {t.name: [] for t in model.graph.initializer}
    for node in model.graph.node:
        for name in node.input:
            if name in found:
                found[name].append(node.name or node.output[0])
    return {name: tuple(nodes) for name, nodes in found.items()}


def weights_by_content(model: onnx.ModelProto) -> dict[tuple[Any, ...], str]:
    """Names of the initialisers by shape and content, to find them again after the import."""
    return {content_key(array_of(t)): t.name for t in model.graph.initializer if t.name}


def content_key(data: Any) -> tuple[Any, ...]:
    """Shape, dtype and hash of an array's bytes."""
    return (data.shape, data.dtype.str, hash(data.tobytes()))
