"""Origins of fused calls: the ONNX nodes that they contain, the ONNX tensors that they compute.

TVM's frontend drops the model's names, but variables keep their names until fusion. So everything
that an ONNX node becomes is bound to variables with the node's number. Fusion renames the results
of a group; a value is found again by its computation, which is the same before and after.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import IRModule, relax
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from nnjit_studio.compiler.tvm_adapter.operands import check_operands
from nnjit_studio.errors import NnjitError

_NUMBERED = re.compile(r"onnx_node_(\d+)_")
_RESULTS = "onnx_results"
"""Attribute of ``main``: for each variable that is a result, JSON of node and output."""


@dataclass(frozen=True)
class Origin:
    """Where a call comes from."""

    nodes: tuple[str, ...] = ()
    """Names of the ONNX nodes in it, in the model's order."""
    tensors: tuple[str, ...] = ()
    """The ONNX name of each of its outputs; ``""`` where the model has no such tensor."""


class NodeError(Exception):
    """What the converter of a node raised."""

    def __init__(self, op_type: str, name: str, cause: Exception) -> None:
        super().__init__(str(cause))
        self.op_type, self.name, self.cause = op_type, name, cause


class NumberingImporter(ONNXGraphImporter):  # type: ignore[misc]
    """TVM's frontend, with what node i becomes in variables ``onnx_node_i_...``."""

    def from_onnx(self, graph: Any, opset: int) -> IRModule:
        module = super().from_onnx(graph, opset)
        module["main"] = module["main"].with_attr(_RESULTS, json.dumps(self._results))
        return module

    def _construct_nodes(self, graph: Any) -> None:
        self._rest: Iterator[tuple[int, Any]] = enumerate(graph.node)
        self._results: dict[str, tuple[int, int]] = {}
        super()._construct_nodes(graph)

    def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        number, node = next(self._rest, (-1, None))
        while node is not None and node.op_type != op_name:  # an If goes another way
            number, node = next(self._rest, (-1, None))
        name = f"onnx_node_{number}_" if node is not None else ""
        emit, normalize = self.bb.emit, self.bb.normalize
        self.bb.emit = lambda expr, name_hint="": emit(expr, name or name_hint)
        self.bb.normalize = lambda expr: normalize(self._named_fields(expr))
        try:
            check_operands(op_name, node_name(node) if node is not None else "", inputs, attrs)
            result = super()._convert_operator(op_name, inputs, attrs, opset)
            if isinstance(result, relax.Tuple):
                return relax.Tuple([self._result(f, number, i) for i, f in enumerate(result)])
            return self._result(result, number, 0)
        except (NnjitError, MemoryError):
            raise
        except Exception as e:
            raise NodeError(op_name, node_name(node) if node is not None else "", e) from e
        finally:
            del self.bb.emit, self.bb.normalize

    def _named_fields(self, expr: Any) -> Any:
        """A tuple's calls in variables, which else would be bound without a name."""
        if not isinstance(expr, relax.Tuple):
            return expr
        return relax.Tuple([self.bb.emit(f) if isinstance(f, relax.Call) else f for f in expr])

    def _result(self, expr: Any, number: int, output: int) -> Any:
        """The expression in a variable of its own, if it computes anything."""
        computed = isinstance(expr, relax.Call)
        if computed and type(expr.ty).__name__ in ("TensorType", "TupleType"):
            expr = self.bb.emit(expr)
        # What only hands a value on, such as an Identity, does not rename it.
        if isinstance(expr, relax.Var) and expr.name.startswith(f"onnx_node_{number}_"):
            self._results.setdefault(expr.name, (number, output))
        return expr


def node_name(node: Any) -> str:
    """The name of an ONNX node, or of its first output where it has none.

    What a decomposition made of node ``n`` is called ``n//1``, ``n//2``, ...: it is of ``n``.
    """
    return re.sub(r"//\d+$", "", node.name or next(iter(node.output), ""))


def origins(before: IRModule, fused: IRModule, graph: Any) -> dict[Any, Origin]:
    """The origin of each variable of the fused module's ``main``.

    Parameters
    ----------
    before, fused
        The module just before and just after ``FuseOps``.
    graph
        The ONNX graph that was imported.
    """
    values = _Values()
    main = before["main"]
    scope = {p: values.of("input", p.name) for p in main.params}
    results: dict[str, tuple[int, int]] = json.loads(str(main.attrs[_RESULTS]))
    numbers: dict[int, int] = {}
    own: dict[int, tuple[int, int]] = {}
    trail: list[tuple[int, list[int]]] = []
    for binding in _bindings(main):
        key = scope[binding.var] = values.key(binding.value, scope, before)
        trail.append((key, values.reads(binding.value, scope)))
        found = _NUMBERED.match(binding.var.name)
        if found:
            numbers.setdefault(key, int(found[1]))
        if binding.var.name in results:
            own.setdefault(key, results[binding.var.name])
    makers = {o: (i, k) for i, node in enumerate(graph.node) for k, o in enumerate(node.output)}
    ends = values.fields(values.key(main.body.body, scope, before))
    for key, port in zip(ends, graph.output, strict=True):
        # The variable of a result has the name of the function's end.
        if port.name in makers:
            own.setdefault(key, makers[port.name])
            numbers.setdefault(key, makers[port.name][0])
    known = set(numbers)
    for key, reads in reversed(trail):
        # What a pass made on its way belongs to the node that needs it first.
        for part in reads:
            if key in numbers and part not in known:
                numbers[part] = numbers[key]

    def tensor(key: int) -> str:
        whole, index = (key, 0) if key in own else values.item(key)
        if whole not in own:
            return ""
        number, output = own[whole]
        return str(dict(enumerate(graph.node[number].output)).get(output + index, ""))

    origin: dict[Any, Origin] = {}
    main = fused["main"]
    scope = {p: values.of("input", p.name) for p in main.params}
    for binding in _bindings(main):
        made: list[int] = []
        key = scope[binding.var] = values.key(binding.value, scope, fused, made)
        nodes = sorted({numbers[k] for k in made if k in numbers})
        origin[binding.var] = Origin(
            tuple(dict.fromkeys(node_name(graph.node[n]) for n in nodes)),
            tuple(tensor(k) for k in _leaves(values, key, binding.var)),
        )
    return origin


def _leaves(values: _Values, key: int, var: Any) -> list[int]:
    if type(var.ty).__name__ != "TupleType":
        return [key]
    fields = values.fields(key)
    if fields != [key]:
        return fields
    return [values.of("item", key, i) for i in range(len(var.ty.fields))]


def _bindings(function: Any) -> Iterator[Any]:
    for block in function.body.blocks:
        yield from block.bindings


class _Values:
    """Values numbered by what computes them from the model's inputs and constants."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._terms: list[tuple[Any, ...]] = []

    def of(self, *term: Any) -> int:
        if term not in self._numbers:
            self._numbers[term] = len(self._terms)
            self._terms.append(term)
        return self._numbers[term]

    def fields(self, key: int) -> list[int]:
        """The parts of a tuple; the value itself where it is none."""
        kind, *parts = self._terms[key]
        return parts if kind == "tuple" else [key]

    def item(self, key: int) -> tuple[int, int]:
        """The value and the place in it that ``key`` is taken from; itself at 0 if it is none."""
        kind, *parts = self._terms[key]
        return (parts[0], parts[1]) if kind == "item" else (key, 0)

    def reads(self, expr: Any, scope: dict[Any, int]) -> list[int]:
        kind = type(expr).__name__
        if kind == "Call":
            return [k for a in expr.args for k in self.reads(a, scope)]
        if kind == "Tuple":
            return [k for f in expr.fields for k in self.reads(f, scope)]
        if kind == "TupleGetItem":
            return self.reads(expr.tuple_value, scope)
        return [scope[expr]] if expr in scope else []

    def key(
        self, expr: Any, scope: dict[Any, int], module: IRModule, made: list[int] | None = None
    ) -> int:
        """The number of an expression's value; ``made`` gets those that it computes."""
        kind = type(expr).__name__
        if kind == "Tuple":
            return self.of("tuple", *(self.key(f, scope, module, made) for f in expr.fields))
        if kind == "TupleGetItem":
            whole, index = self.key(expr.tuple_value, scope, module, made), int(expr.index)
            fields = self.fields(whole)
            return fields[index] if fields != [whole] else self.of("item", whole, index)
        if kind != "Call":
            return scope[expr] if expr in scope else self.of("constant", expr)
        args = [self.key(a, scope, module, made) for a in expr.args]
        callee = module[expr.op] if type(expr.op).__name__ == "GlobalVar" else None
        if callee is not None and isinstance(callee, relax.Function):
            inner = dict(zip(callee.params, args, strict=True))
            for binding in _bindings(callee):
                inner[binding.var] = self.key(binding.value, inner, module, made)
            return self.key(callee.body.body, inner, module, made)
        # Attributes are objects: those of equal calls print alike.
        made_key = self.of("call", str(expr.op), str(expr.attrs), *args)
        if made is not None:
            made.append(made_key)
        return made_key
