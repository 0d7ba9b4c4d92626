"""Reading of an untrusted ONNX file, with one sentence for every way it can be wrong.

Runs in the compile process. Nothing outside the model's own folder is read.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from nnjit_studio.compiler.onnx_file import budget
from nnjit_studio.compiler.onnx_file.arrays import array_of, load_external, load_mapped
from nnjit_studio.compiler.onnx_file.external import (
    check_external_data,
    tensor_bytes,
    tensors_of,
    widened_bytes,
)
from nnjit_studio.compiler.onnx_file.native import native_session
from nnjit_studio.compiler.onnx_file.order import check_count, name_graphs, put_in_order
from nnjit_studio.compiler.onnx_file.ports import take_known, take_scores
from nnjit_studio.errors import ModelError, NnjitError, UnsupportedOpError

WASM_BYTES = 4 * 2**30
"""The address space of 32-bit Wasm, in bytes."""
_ONNX, RUNTIME = ("", "ai.onnx"), "com.microsoft"
ML, _FOR_ML = "ai.onnx.ml", 17
DOMAINS = (*_ONNX, RUNTIME)
"""Domains whose operators have converters; the last one is ONNX Runtime's."""


def load_model(path: Path) -> onnx.ModelProto:
    """The parsed and checked model with its external data in place, no input in float64 and scores
    in tensors.

    Raises
    ------
    ModelError
        Not there, not ONNX, truncated, or external data that is missing, too
        short or outside the model's folder.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ModelError(f"{str(path)!r} is not a regular file.", "Choose an .onnx file.")
        with path.open("rb") as file:
            model = onnx.load(file, load_external_data=False)
    except NnjitError:
        raise
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
        what = "not an ONNX model" if path.stat().st_size else "empty"
        raise ModelError(f"{path.name!r} is {what}.", "Choose a file with an .onnx graph.")
    _check_frame(model)
    check_count(model)
    check_external_data(model, path)
    _check_fits(model, path.stat().st_size)
    # The checker's C++ takes no path that is not ASCII in every locale, and no external data of two
    # names (a hard link), which copies of models have.
    changed = put_in_order(model.graph) | name_graphs(model.graph) | _name_domains(model)
    changed |= not str(path).isascii()
    _name_onnx(model)
    own = _external(model.graph.initializer)
    light = changed or (own and own == _external(tensors_of(model.graph)))
    try:
        onnx.checker.check_model(_without_weights(model) if light else str(path))
        load_external(list(tensors_of(model.graph)), path.parent)
    except Exception as e:
        reason = str(e).strip().splitlines()[0][:200]
        raise ModelError(
            f"{path.name!r} is not a valid ONNX model: {reason}", "Export it again."
        ) from e
    take_scores(model)
    take_known(model)
    return model


def _check_frame(model: onnx.ModelProto) -> None:
    """Refuse what the ONNX checker lets pass, although no two programs agree on it."""
    versions = [o.version for o in model.opset_import if o.domain in _ONNX]
    graph, newest = model.graph, onnx.defs.onnx_opset_version()
    outputs = [o.name for o in graph.output]
    if len(set(versions)) > 1:
        raise ModelError("The model names ONNX's operators in two versions.", "Export it again.")
    if versions and versions[0] > newest:
        raise ModelError(
            f"The model needs opset {versions[0]}; the newest that is known is {newest}.",
            "Export it with an older opset.",
        )
    weights = [t.name for t in (*graph.initializer, *(s.values for s in graph.sparse_initializer))]
    if len(set(weights)) < len(weights):
        raise ModelError("Two weights of the model have one name.", "Export it again.")
    if not outputs or len(set(outputs)) < len(outputs):
        raise ModelError("The model has no outputs, or one of them twice.", "Export it again.")


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators."""
    return max((o.version for o in model.opset_import if o.domain in _ONNX), default=1)


def _name_domains(model: onnx.ModelProto) -> bool:
    """Give nodes of ONNX Runtime's own operators its domain; whether any was without.

    Its tools write some of them into ONNX's domain, where no version of ONNX has them.
    """
    found = False
    opset = opset_of(model)
    for node in model.graph.node:
        unknown = node.domain in _ONNX and not onnx.defs.has(node.op_type, opset, "")
        if unknown and node.op_type in _runtime_operators():
            node.domain, found = RUNTIME, True
    if found and not any(o.domain == RUNTIME for o in model.opset_import):
        model.opset_import.add(domain=RUNTIME, version=1)
    return found


def _name_onnx(model: onnx.ModelProto) -> None:
    """Let a model of ai.onnx.ml alone have ONNX's operators, in which its own are written."""
    domains = {o.domain for o in model.opset_import}
    if domains == {ML}:
        model.opset_import.add(domain="", version=_FOR_ML)
        model.ir_version = max(model.ir_version, 8)


@cache
def _runtime_operators() -> frozenset[str]:
    """Operators that ONNX Runtime has beyond those of ONNX."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    schemas = get_all_operator_schema()
    return frozenset(s.name for s in schemas if s.domain == RUNTIME or not onnx.defs.has(s.name))


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its weights as inputs, for the checker, which would make several copies.

    Those that stand in the file are checked one by one.
    """
    light, graph = onnx.ModelProto(), model.graph
    _copy_fields(model, light, "graph")
    _copy_fields(graph, light.graph, "initializer")
    ports = {port.name for port in graph.input}
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            onnx.checker.check_tensor(tensor)
        if tensor.name not in ports:
            port = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            light.graph.input.append(port)
    return light


def _copy_fields(source: Any, target: Any, left_out: str) -> None:
    """Copy a message without one of its fields, however large that is."""
    for field, value in source.ListFields():
        if field.name == left_out:
            continue
        if isinstance(value, (bool, int, float, str, bytes)):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)


def node_name(node: onnx.NodeProto) -> str:
    """The name of a node, or of its first output where it has none."""
    return str(node.name or next(iter(node.output), ""))


def _check_fits(model: onnx.ModelProto, nbytes: int) -> None:
    """Refuse, by the sizes in the file alone, weights that no page can hold."""
    tensors = list(tensors_of(model.graph))
    check_memory(sum(map(tensor_bytes, tensors)), "weights alone")
    others = nbytes - sum(len(t.raw_data) for t in tensors)
    budget.known_size(sum(map(widened_bytes, tensors)), others)


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


def _external(tensors: Iterable[onnx.TensorProto]) -> int:
    """How many have their values in a file of their own."""
    return sum(t.data_location == onnx.TensorProto.EXTERNAL for t in tensors)


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

    load_mapped(model)

    with tempfile.TemporaryDirectory() as folder:
        folded = str(Path(folder) / "folded.onnx")
        try:
            native_session(
                model.SerializeToString(), "ORT_ENABLE_BASIC", intra_op_num_threads=1,
                optimized_model_filepath=folded,
            )  # fmt: skip
            return onnx.load(folded)
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
