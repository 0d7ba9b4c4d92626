"""The graph passes, by name and in order: on the ONNX model and on its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import onnx

from nnjit_studio.compiler.importer.onnx.byte_functions import byte_functions
from nnjit_studio.compiler.importer.onnx.channels_last import channels_last
from nnjit_studio.compiler.importer.onnx.contrib import expand
from nnjit_studio.compiler.importer.onnx.control.bodies import LoopBody
from nnjit_studio.compiler.importer.onnx.decompose import decompose, types_of
from nnjit_studio.compiler.importer.onnx.fold import fold_for
from nnjit_studio.compiler.importer.onnx.forms.unsigned import unsigned_integers
from nnjit_studio.compiler.importer.onnx.forms.wider_integers import wider_integers
from nnjit_studio.compiler.importer.onnx.single_precision import single_precision
from nnjit_studio.compiler.importer.onnx.walk import Counted
from nnjit_studio.compiler.importer.program.bytes.join_constants import join_constants
from nnjit_studio.compiler.importer.program.bytes.merge_numbers import merge_numbers
from nnjit_studio.compiler.importer.program.bytes.merge_row_sums import merge_row_sums
from nnjit_studio.compiler.importer.program.bytes.numbers_ahead import numbers_ahead
from nnjit_studio.compiler.importer.program.fold_views import fold_views
from nnjit_studio.compiler.importer.program.fuse_attention import fuse_attention
from nnjit_studio.compiler.importer.program.fuse_pointwise import fuse_pointwise
from nnjit_studio.compiler.importer.program.fuse_rows import fuse_rows
from nnjit_studio.compiler.importer.program.half_weights import keep_halves
from nnjit_studio.compiler.importer.program.keep_whole import keep_whole
from nnjit_studio.compiler.importer.program.merge_products import merge_products
from nnjit_studio.compiler.importer.program.merge_siblings import merge_siblings
from nnjit_studio.compiler.importer.program.round_apart import round_apart
from nnjit_studio.compiler.importer.program.share_scales import share_scales
from nnjit_studio.compiler.importer.program.split_columns import split_columns
from nnjit_studio.compiler.importer.program.take_views import take_views
from nnjit_studio.compiler.importer.program.tie_weights import tie_weights
from nnjit_studio.compiler.importer.program.winograd import use_winograd
from nnjit_studio.compiler.onnx_file import budget
from nnjit_studio.compiler.onnx_file.attributes import model_text
from nnjit_studio.compiler.onnx_file.check import inlined
from nnjit_studio.compiler.templates import prepared
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.errors import UserError
from nnjit_studio.model import GraphPass
from nnjit_studio.model.plan_choice import OFF, ON, PlanChoice

FEWEST_STEPS = 2
"""Of a recurrent layer, from which on a loop is faster than kernels for each step in Wasm."""
MOST_LAID_OUT = 128
"""Steps of a recurrent layer that are laid out at most."""
AROUND_BYTES = frozenset(("merge_numbers", "merge_row_sums"))
"""Passes that ``numbers_apart`` turns off."""
_Form = TypeVar("_Form")


@dataclass
class Import:
    """Options of the passes of one import, and their side results."""

    halves: str = ""
    """``exact`` stores weights that are halves by value as such, ``rounded`` makes halves of
    others too; empty for neither."""
    winograd: bool = True
    """Whether convolutions may become :mod:`.winograd`'s three steps."""
    keep_ports: bool = True
    """Whether inputs and outputs of a model in half precision stay f16."""
    any_size: bool = False
    """Whether nothing may depend on sizes: every tensor has a place of its own, where else a large
    output may overwrite an input, and all recurrent layers are loops."""
    joins_apart: bool = False
    """Whether tensors are joined by kernels of their own: what is read in a part that was flattened
    else has an index that is other code from size to size."""
    numbers_apart: bool = False
    """Whether numbers and sums around bytes are computed by calls of their own: which are small
    enough to be part of another depends on sizes."""
    loops: bool = True
    """Whether recurrent layers are loops from two steps on. A GPU runs such a loop on few of its
    threads: there only layers are loops that would need a great many kernels."""
    ways: Mapping[str, str] = field(default_factory=dict)
    """Choices made otherwise than by their rules, by name."""
    choices: list[PlanChoice] = field(default_factory=list)
    """The choices that this model has, with what was taken."""
    bodies: dict[str, LoopBody] | None = None
    """Gets the bodies of Loop and Scan, by the form of their call; None where all are laid out."""
    values: Mapping[str, int] = field(default_factory=dict)
    """Values of inputs at hand."""
    keep_ranges: bool = False
    """Whether a Range over a size is a kernel, and what follows from it, and not a constant."""
    counted: Counted = field(default_factory=Counted)
    """What was found of Ranges over sizes."""
    relied: frozenset[str] = frozenset()
    """The inputs whose values the plan was laid out for."""
    weight_names: dict[tuple[Any, ...], str] = field(default_factory=dict)
    """The initialisers by content; rounded weights are added."""
    absorbed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The ONNX nodes that are in a table of bytes, by the node whose name the table has."""
    views: dict[str, str] = field(default_factory=dict)
    """What each view is a view of, by name; from :mod:`.take_views`."""
    tensors: list[tuple[str, str]] = field(default_factory=list)
    """The ONNX names of values; from :mod:`.take_views`."""
    done: list[GraphPass] = field(default_factory=list)
    """The passes so far, with what each changed."""
    dump_after: str = ""
    """Name of the pass after which to keep the text form."""
    dump: str = ""
    """The text form after that pass."""


@dataclass(frozen=True)
class Stage(Generic[_Form]):
    """Passes over one form of the model, of so many ``unit``."""

    unit: str
    size: Callable[[_Form], int]
    text: Callable[[_Form], str]
    passes: tuple[tuple[str, Callable[[_Form, Import], _Form]], ...]

    def run(self, form: _Form, imports: Import) -> _Form:
        """All passes, in order."""
        for name, change in self.passes:
            budget.progress()
            before = self.size(form)
            form = change(form, imports)
            imports.done.append(GraphPass(name, self.unit, before, self.size(form)))
            if name == imports.dump_after:
                imports.dump = self.text(form)
        return form


def calls_text(calls: ImportedCalls) -> str:
    """``results = program(values)``, and the ONNX nodes that a call stands for."""
    lines = [f"inputs {_values(calls.inputs)}", f"outputs {_values(calls.outputs)}"]
    for call in calls.calls:
        line = f"{_values(call.outputs)} = {call.program.name}({_values(call.inputs)})"
        lines.append(line + (f"  # {', '.join(call.origin.nodes)}" if call.origin.nodes else ""))
    return "\n".join(lines) + "\n"


def _values(values: tuple[Value, ...]) -> str:
    return ", ".join(
        f"{v.name}:{v.dtype}[{'x'.join(map(str, v.shape))}]{' constant' * (v.constant is not None)}"
        for v in values
    )


def _prepare(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    return replace(calls, calls=tuple(replace(c, program=prepared(c.program)) for c in calls.calls))


def _keep_halves(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    if not imports.halves:
        return calls
    kept = keep_halves(calls.calls, imports.halves == "rounded", imports.weight_names)
    return replace(calls, calls=tuple(kept))


def _optional(
    name: str,
    reason: str,
    change: Callable[[ImportedCalls, Import], ImportedCalls],
    otherwise: Callable[[ImportedCalls], ImportedCalls] = lambda calls: calls,
) -> tuple[str, Callable[[ImportedCalls, Import], ImportedCalls]]:
    """A pass that is a choice where it changes anything."""

    def run(calls: ImportedCalls, imports: Import) -> ImportedCalls:
        done, left = change(calls, imports), otherwise(calls)
        same = len(done.calls) == len(left.calls)
        if same and (left is not calls or _all_same(done.calls, left.calls)):
            return done
        value = imports.ways.get(name, ON)
        other = OFF if value == ON else ON
        imports.choices.append(PlanChoice(name, value, ON, (other,), reason))
        return done if value == ON else left

    return name, run


def _all_same(some: Sequence[ProgramCall], others: Sequence[ProgramCall]) -> bool:
    return all(a is b for a, b in zip(some, others, strict=True))


def _winograd(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    return use_winograd(calls, imports.ways, imports.choices) if imports.winograd else calls


def _fuse_attention(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    return calls if imports.any_size else fuse_attention(calls, imports.views)


def _fuse_rows(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    return calls if imports.any_size else fuse_rows(calls, imports.views)


def _merge_numbers(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    return calls if imports.numbers_apart else merge_numbers(calls, imports.views)


def _merge_row_sums(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    return calls if imports.numbers_apart else merge_row_sums(calls, imports.views)


def _numbers_ahead(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    # At sizes far above those that are imported each part would compute them of far more elements.
    return calls if imports.any_size else numbers_ahead(calls, imports.views)


def _merge_siblings(calls: ImportedCalls, imports: Import) -> ImportedCalls:
    return calls if imports.any_size else merge_siblings(calls, imports.views)


def _fold(model: onnx.ModelProto, imports: Import) -> onnx.ModelProto:
    model, imports.relied, imports.counted = fold_for(
        model, imports.values, imports.bodies, imports.keep_ranges
    )
    return model


def loops_from(imports: Import) -> int:
    """Steps from which on a recurrent layer is a loop."""
    return 1 if imports.any_size else FEWEST_STEPS if imports.loops else MOST_LAID_OUT + 1


def _byte_functions(model: onnx.ModelProto, imports: Import) -> onnx.ModelProto:
    return byte_functions(model, imports.absorbed) if imports.loops else model


def _decompose(model: onnx.ModelProto, imports: Import) -> onnx.ModelProto:
    return decompose(model, loops_from(imports), imports.any_size)


MODEL_PASSES: Stage[onnx.ModelProto] = Stage(
    "nodes",
    lambda model: len(model.graph.node),
    model_text,
    (
        ("inline_functions", lambda model, imports: inlined(model)),
        ("contrib", lambda model, imports: expand(model)),
        ("fold", _fold),
        ("single_precision", lambda model, imports: single_precision(model, imports.keep_ports)),
        ("unsigned_integers", lambda model, imports: unsigned_integers(model, types_of)),
        ("byte_functions", _byte_functions),
        ("decompose", _decompose),
        ("wider_integers", lambda model, imports: wider_integers(model, types_of)),
        ("channels_last", lambda model, imports: channels_last(model)),
    ),
)
CALL_PASSES: Stage[ImportedCalls] = Stage(
    "calls",
    lambda calls: len(calls.calls),
    calls_text,
    (
        _optional(
            "merge_products",
            "products of one input, such as Q, K and V, are one product",
            lambda calls, imports: merge_products(calls),
            fold_views,
        ),
        _optional(
            "split_columns",
            "a merged product writes its column blocks apart",
            lambda calls, imports: split_columns(calls),
        ),
        ("tie_weights", lambda calls, imports: tie_weights(calls)),
        ("take_views", lambda calls, imports: take_views(calls, imports.views, imports.tensors)),
        _optional(
            "fuse_pointwise",
            "elementwise operators behind a reshape are part of the kernel before",
            lambda calls, imports: fuse_pointwise(calls, imports.views),
        ),
        _optional(
            "fuse_attention",
            "attention is one kernel that keeps the scores of a few queries in a small workspace",
            _fuse_attention,
        ),
        ("merge_siblings", _merge_siblings),
        _optional(
            "fuse_rows",
            "a 4-bit product of one row makes the row itself, be it a norm or a gate",
            _fuse_rows,
        ),
        ("round_apart", lambda calls, imports: round_apart(calls)),
        ("winograd", _winograd),
        ("keep_whole", lambda calls, imports: keep_whole(calls)),
        ("merge_numbers", _merge_numbers),
        ("merge_row_sums", _merge_row_sums),
        ("numbers_ahead", _numbers_ahead),
        ("share_scales", lambda calls, imports: share_scales(calls)),
        ("join_constants", lambda calls, imports: join_constants(calls)),
        ("prepare", _prepare),
        ("keep_halves", _keep_halves),
    ),
)
GRAPH_PASSES = tuple(name for stage in (MODEL_PASSES, CALL_PASSES) for name, _ in stage.passes)


def check_pass(name: str) -> None:
    """Refuse a name that no graph pass has.

    Raises
    ------
    UserError
    """
    if name not in GRAPH_PASSES:
        raise UserError(f"There is no graph pass {name!r}.", f"They are {', '.join(GRAPH_PASSES)}.")
