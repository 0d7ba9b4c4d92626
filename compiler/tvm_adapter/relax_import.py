"""Import of ONNX through TVM's Relax importer, as calls of tensor-IR programs."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import IRModule, ir, register_global_func, relax
from tvm.relax.frontend.onnx import onnx_frontend

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.onnx_file.arrays import array_of
from nnjit_studio.compiler.onnx_file.budget import progress
from nnjit_studio.compiler.tvm_adapter import folding, scans
from nnjit_studio.compiler.tvm_adapter import kv_cache as cache
from nnjit_studio.compiler.tvm_adapter.bits.byte_function import BYTE_FUNCTION, ByteFunction
from nnjit_studio.compiler.tvm_adapter.bits.casts import BFLOAT16_OP, BitCast, RoundToBfloat16
from nnjit_studio.compiler.tvm_adapter.counting import (
    COUNTING_FORM,
    COUNTING_OP,
    Counting,
    counting_program,
)
from nnjit_studio.compiler.tvm_adapter.found import (
    BOXES_OP,
    FOUND_FORM,
    PLACES_OP,
    FoundBoxes,
    FoundPlaces,
    found_program,
)
from nnjit_studio.compiler.tvm_adapter.loops import (
    LOOP_FORM,
    LOOP_OP,
    CountedLoop,
    loop_program,
)
from nnjit_studio.compiler.tvm_adapter.nodes import DTYPES
from nnjit_studio.compiler.tvm_adapter.open_sizes import joined, unit_axes
from nnjit_studio.compiler.tvm_adapter.open_sizes.nearest import NEAREST_OP, NearestPlace
from nnjit_studio.compiler.tvm_adapter.origins import (
    NodeError,
    NumberingImporter,
    Origin,
    origins,
)
from nnjit_studio.compiler.tvm_adapter.primfunc import program_of
from nnjit_studio.compiler.tvm_adapter.quantised import CONVERTERS
from nnjit_studio.compiler.tvm_adapter.quantised_conv import INTEGER_CONV, IntegerConv
from nnjit_studio.compiler.tvm_adapter.recurrent import (
    RECURRENT_OP,
    RecurrentLoop,
    recurrent_program,
)
from nnjit_studio.compiler.tvm_adapter.reductions import (
    CumProd,
    ReduceLogSumExp,
    ReduceSumSquare,
    Slice,
)
from nnjit_studio.compiler.tvm_adapter.trees import TREE_FORM, TREE_OP, TreeWalk, tree_program
from nnjit_studio.errors import ModelError, NnjitError, UnsupportedOpError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Value:
    """A tensor between calls; ``constant`` holds its data when it is known."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    constant: NDArray[Any] | None = None


@dataclass(frozen=True)
class ProgramCall:
    """One fused operator applied to values, in the order of the program's buffers."""

    program: Program
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    origin: Origin = field(default_factory=Origin)


@dataclass(frozen=True)
class ImportedCalls:
    """The whole model as calls in order of execution."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    calls: tuple[ProgramCall, ...]


_OWN_OPERATORS = {
    cache.APPEND_OP: cache.CacheAppend,
    BYTE_FUNCTION: ByteFunction,
    INTEGER_CONV: IntegerConv,
    RECURRENT_OP: RecurrentLoop,
    LOOP_OP: CountedLoop,
    COUNTING_OP: Counting,
    TREE_OP: TreeWalk,
    PLACES_OP: FoundPlaces,
    BOXES_OP: FoundBoxes,
    NEAREST_OP: NearestPlace,
    BFLOAT16_OP: RoundToBfloat16,
}
"""Converters of the operators that the importer's own passes write."""


def _with_own(stock: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    reductions = {
        "CumProd": CumProd, "ReduceSumSquare": ReduceSumSquare, "ReduceLogSumExp": ReduceLogSumExp,
        "Slice": Slice,
    }  # fmt: skip
    own = {**CONVERTERS, "BitCast": BitCast, **reductions, **_OWN_OPERATORS}
    return lambda: {**stock(), **own}


# The frontend has no registry to add converters to.
onnx_frontend._get_convert_map = _with_own(onnx_frontend._get_convert_map)
onnx_frontend.ONNXGraphImporter = NumberingImporter
# Its own reads external data from the working directory.
onnx_frontend.get_numpy = array_of
# FoldConstant looks this up once, at its first constant.
register_global_func("tirx.build", folding.build, override=True)


def supported_operators() -> frozenset[str]:
    """ONNX operator names that the importer has a converter for."""
    converters = onnx_frontend._get_convert_map()
    known = {name for name, cls in converters.items() if cls is not None}
    return frozenset(known - {*_OWN_OPERATORS} | {"Constant"})


def import_calls(
    model: Any,
    shapes: Mapping[str, tuple[int, ...]],
    open_sizes: bool = False,
    joins_apart: bool = False,
) -> ImportedCalls:
    """Import, simplify and fuse an ONNX model with static input shapes.

    Parameters
    ----------
    model
        ``onnx.ModelProto`` with its data in place.
    shapes
        Shape of every graph input, by name.
    open_sizes
        Whether no index may hang on two sizes at once where it need not.
    joins_apart
        Whether tensors are joined by kernels of their own.

    Raises
    ------
    ModelError
        When TVM cannot import the model.
    UnsupportedOpError
        When an operator has no loop form that a schedule can take.
    """
    chatter = io.StringIO()
    try:
        with contextlib.redirect_stdout(chatter), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of names that TVM writes otherwise
            module = onnx_frontend.from_onnx(
                model, shape_dict={k: list(v) for k, v in shapes.items()}
            )
            progress()
            simple = ir.transform.Sequential(_simplify(open_sizes, joins_apart))(module)
            progress()
            fused = relax.transform.FuseOps()(simple)
            module = ir.transform.Sequential(_FUSE)(fused)
    except (NnjitError, MemoryError):  # of our own
        raise
    except Exception as e:
        if "bad_alloc" in str(e):
            raise MemoryError from e
        log.debug("import failed after: %s", chatter.getvalue())
        if "Divide by zero" in str(e):
            given = ", ".join(f"{name} {'x'.join(map(str, s))}" for name, s in shapes.items())
            raise ModelError(
                f"With {given} a size inside the model is 0.", "Give larger sizes."
            ) from e
        raise ModelError(
            _reason(e), "Simplify the model (constant shapes, opset 13 to 20) and try again."
        ) from e
    return _calls(module, origins(simple, fused, model.graph))


_TOLD = (ValueError, NotImplementedError, AssertionError)
"""What TVM's frontend raises on purpose; anything else means that it met a form it has no code for,
and so do its own objects as text, which tell a user nothing."""


def _reason(error: Exception) -> str:
    what, cause = "The model's operators", error
    if isinstance(error, NodeError):
        what, cause = f"The operator {error.op_type} of node {error.name!r}", error.cause
    text = (str(cause).strip().splitlines() or [""])[-1][:300].rstrip(". ")
    if not text or "span=" in text or (cause is not error and not isinstance(cause, _TOLD)):
        text = "this form of it has no rule" if cause is not error else "one of them is not known"
    return f"{what} could not be imported: {text}."


_T = relax.transform


def _simplify(open_sizes: bool, joins_apart: bool) -> tuple[Any, ...]:
    own = {"relax.reshape": unit_axes.reshape} if open_sizes else {}
    own |= {"relax.concat": joined.concat} if joins_apart else {}
    return (
        _T.DecomposeOpsForInference(),
        _T.CanonicalizeBindings(),
        _T.EliminateCommonSubexpr(),
        _T.FoldConstant(),
        _T.DeadCodeElimination(),
        _T.LegalizeOps(own or None),
        _T.AnnotateTIROpPattern(),
        _T.FoldConstant(),
    )


_FUSE = (_T.FuseTIR(), _T.DeadCodeElimination())


def _calls(module: IRModule, origin: Mapping[Any, Origin]) -> ImportedCalls:
    main = module["main"]
    values: dict[Any, Value] = {}
    tuples: dict[Any, list[Value]] = {}
    names = (f"value {i}" for i in range(10**9))

    for param in main.params:
        if str(param.ty.dtype) not in DTYPES:
            raise UnsupportedOpError(
                f"The input {param.name!r} is {param.ty.dtype}, which is not supported."
            )
        values[param] = Value(param.name, *_tensor_type(param.ty))
    inputs = tuple(values[param] for param in main.params)

    def value_of(expr: Any) -> Value:
        if type(expr).__name__ == "GenericConst":
            if expr not in values:
                dtype = str(expr.ty.dtype)
                if dtype not in DTYPES:
                    raise UnsupportedOpError(f"A constant of dtype {dtype} is not supported.")
                data = np.from_dlpack(expr.value)  # TVM's own memory: weights are large
                values[expr] = Value(next(names), data.shape, DTYPES[dtype], data)
            return values[expr]
        if type(expr).__name__ == "TupleGetItem":
            return tuples[expr.tuple_value][int(expr.index)]
        found: Value = values[expr]
        return found

    calls: list[ProgramCall] = []
    converted: dict[Any, Program] = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            expr = binding.value
            kind = type(expr).__name__
            if kind == "Tuple":
                tuples[binding.var] = [value_of(f) for f in expr.fields]
            elif kind in ("Var", "DataflowVar") and expr in tuples:
                tuples[binding.var] = tuples[expr]
            elif kind != "Call":
                values[binding.var] = value_of(expr)
            elif expr.op.name in ("relax.call_tir", *_OWN):
                made = origin.get(binding.var, Origin())
                try:
                    if expr.op.name == "relax.call_tir":
                        call = _program_call(module, expr, value_of, names, converted)
                    else:
                        call = _own_call(expr, value_of, names)
                except UnsupportedOpError as e:
                    raise _with_nodes(e, made) from e
                calls.append(replace(call, origin=made))
                if type(binding.var.ty).__name__ == "TupleType":
                    tuples[binding.var] = list(call.outputs)
                else:
                    values[binding.var] = call.outputs[0]
            else:
                raise UnsupportedOpError(
                    f"The operator {expr.op.name.removeprefix('relax.')!r} has no kernel.",
                    "Replace it in the exported model; docs/limits.md lists what is missing.",
                )
    result = main.body.body
    if type(result).__name__ == "Tuple":
        outputs = [value_of(f) for f in result.fields]
    elif result in tuples:
        outputs = tuples[result]
    else:
        outputs = [value_of(result)]
    return ImportedCalls(inputs, tuple(outputs), tuple(calls))


def _with_nodes(error: UnsupportedOpError, made: Origin) -> UnsupportedOpError:
    """The error, which tells of a kernel, with the ONNX nodes that the kernel is made of."""
    if not made.nodes:
        return error
    nodes = ", ".join(map(repr, made.nodes[:3])) + ", ..." * (len(made.nodes) > 3)
    where = f"node {nodes}" if len(made.nodes) == 1 else f"nodes {nodes}"
    return UnsupportedOpError(f"{error.error.rstrip('.')} ({where}).", error.hint)


_SCANS = {"relax.cumsum": "add", "relax.cumprod": "mul"}
_OWN = (*_SCANS, "relax.topk", cache.CARRIER)


def _own_call(expr: Any, value_of: Callable[[Any], Value], names: Iterator[str]) -> ProgramCall:
    """A call of an operator that TVM has no loops for."""
    types = expr.ty.fields if type(expr.ty).__name__ == "TupleType" else [expr.ty]
    outputs = tuple(Value(next(names), *_tensor_type(t)) for t in types)
    if expr.op.name == cache.CARRIER:
        name, given = str(expr.args[0].global_symbol), tuple(value_of(a) for a in expr.args[1:])
        if name.startswith(LOOP_FORM):
            return ProgramCall(loop_program(name, given, outputs), given, outputs)
        if name.startswith(FOUND_FORM):
            return ProgramCall(found_program(name, given, outputs), given, outputs)
        if name.startswith(COUNTING_FORM):
            return ProgramCall(counting_program(name, outputs[0]), given, outputs)
        if name.startswith(TREE_FORM):
            return ProgramCall(tree_program(name, given, outputs[0]), given, outputs)
        make = cache.append_program if name in cache.APPENDS else recurrent_program
        return ProgramCall(make(name, given, outputs[0]), given, outputs)
    source, attrs = value_of(expr.args[0]), expr.attrs
    if expr.op.name in _SCANS:
        axis, exclusive = int(attrs.axis), bool(attrs.exclusive)
        how = _SCANS[expr.op.name]
        program = scans.cumsum(source.shape, source.dtype, axis, exclusive, how)
    else:
        best = int(attrs.k), bool(attrs.largest)
        axis, index = int(attrs.axis), outputs[1].dtype
        program = scans.top_k(source.shape, source.dtype, axis, *best, index)
    return ProgramCall(program, (source,), outputs)


def _tensor_type(ty: Any) -> tuple[tuple[int, ...], str]:
    dtype = str(ty.dtype)
    if dtype not in DTYPES:
        raise UnsupportedOpError(f"Tensors of dtype {dtype} are not supported.")
    try:
        return tuple(int(d) for d in ty.shape), DTYPES[dtype]
    except (TypeError, ValueError) as e:
        raise ModelError(
            "A tensor inside the model has no static shape.",
            "Export the model with fixed input shapes.",
        ) from e


def _program_call(
    module: IRModule, expr: Any, value_of: Any, names: Iterator[str], converted: dict[Any, Program]
) -> ProgramCall:
    callee, arguments = expr.args[0], expr.args[1]
    inputs = [value_of(a) for a in arguments.fields]
    out_types = expr.ty_args[0]
    fields = out_types.fields if type(out_types).__name__ == "TupleType" else [out_types]
    outputs = tuple(Value(next(names), *_tensor_type(t)) for t in fields)

    scalars = {
        i: v.constant.reshape(()).item()
        for i, v in enumerate(inputs)
        if v.constant is not None and v.constant.size == 1
    }
    constants = tuple(v.constant is not None for v in inputs)
    key = (callee, tuple(scalars.items()), constants)
    if key not in converted:
        converted[key] = program_of(module[callee], callee.name_hint, scalars, constants)
    kept = tuple(v for i, v in enumerate(inputs) if i not in scalars)
    return ProgramCall(converted[key], kept, outputs)
