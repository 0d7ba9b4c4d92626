"""Import of one ONNX file: reading, the graph passes, TVM, and the assembly of the plan."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnjit_studio.compiler import tvm_adapter
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.build import build
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.loop_steps import CompiledLoop, compiled_loop
from nnjit_studio.compiler.importer.names import OnnxNames
from nnjit_studio.compiler.importer.onnx.control.bodies import LoopBody
from nnjit_studio.compiler.importer.onnx.found.walk import too_much
from nnjit_studio.compiler.importer.onnx.single_precision import has_halves
from nnjit_studio.compiler.importer.passes import MODEL_PASSES, Import, check_pass
from nnjit_studio.compiler.ir.tensor_ir import Buffer, Program
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.onnx_file.input_shapes import fix_input_shapes
from nnjit_studio.compiler.spelling import seeded_input
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.compiler.tvm_adapter.bits.byte_function import BYTE_FUNCTION
from nnjit_studio.compiler.tvm_adapter.bits.casts import BFLOAT16_OP
from nnjit_studio.compiler.tvm_adapter.counting import COUNTING_OP
from nnjit_studio.compiler.tvm_adapter.found import BOXES_OP, PLACES_OP
from nnjit_studio.compiler.tvm_adapter.loops import LOOP_OP
from nnjit_studio.compiler.tvm_adapter.open_sizes.nearest import NEAREST_OP
from nnjit_studio.compiler.tvm_adapter.quantised import TABLE_PRODUCT
from nnjit_studio.compiler.tvm_adapter.quantised_conv import INTEGER_CONV
from nnjit_studio.compiler.tvm_adapter.recurrent import RECURRENT_OP
from nnjit_studio.compiler.tvm_adapter.trees import TREE_OP
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.model import GivenShapes
from nnjit_studio.model.plan_choice import NO_WAYS
from nnjit_studio.support.phases import OnPhase, quiet

STATIC = GivenShapes()


def import_model(
    path: Path,
    weights_file: Path,
    on_phase: OnPhase = quiet,
    given: GivenShapes = STATIC,
    winograd: bool = True,
    half_weights: bool = False,
    ways: Mapping[str, str] = NO_WAYS,
    loops: bool = True,
) -> BuiltModel:
    """Import an ONNX model; open dimensions of its inputs are fixed once for all.

    Parameters
    ----------
    path
        The model; external data is read from its own folder alone.
    weights_file
        Written: all weights, at the offsets of the plan.
    on_phase
        Called with the name of each phase as it begins.
    given
        Numbers for the open dimensions.
    winograd
        Whether 3x3 convolutions may run in tiles (:mod:`.winograd`).
    half_weights
        Whether weights are rounded to f16 where that is cheap to read (:mod:`.half_weights`).
    ways
        Choices made otherwise than by their rules (:mod:`nnjit_studio.model.plan_choice`).
    loops
        Whether recurrent layers are loops from two steps on, as suits Wasm.

    Raises
    ------
    ModelError, UnsupportedOpError
        With one sentence and the next step.
    """
    imports = Import(winograd=winograd, ways=ways, loops=loops)
    return import_with(path, weights_file, on_phase, given, half_weights, imports)


def graph_text(
    path: Path, dump_after: str, given: GivenShapes, winograd: bool, half_weights: bool
) -> str:
    """The model as text after one of the graph passes, even where a later step refuses it.

    Raises
    ------
    ModelError, UnsupportedOpError, UserError
        When there is no such pass, or the model is refused before it.
    """
    check_pass(dump_after)
    imports = Import(winograd=winograd, dump_after=dump_after)
    with tempfile.TemporaryDirectory() as folder:
        weights = Path(folder) / "weights.bin"
        try:
            import_with(path, weights, quiet, given, half_weights, imports)
        except ModelError:
            if not imports.dump:
                raise
    return imports.dump


def import_with(
    path: Path,
    weights_file: Path | Weights,
    on_phase: OnPhase,
    given: GivenShapes,
    half_weights: bool,
    imports: Import,
) -> BuiltModel:
    """Import a model for one set of sizes; see :func:`import_model`.

    ``weights_file`` may be the places in a file that other plans use too.
    """
    on_phase("reading the model")
    model = check.load_model(path)
    shapes = fix_input_shapes(model, given)
    imports.values = given.values
    on_phase("loading the importer")
    model = with_known_operators(model, half_weights, imports)
    on_phase("importing and fusing")
    model, calls = _calls(model, shapes, imports)
    loops = {
        key: _loop(body, half_weights, imports) for key, body in (imports.bodies or {}).items()
    }
    on_phase("planning memory")
    imports.weight_names = check.weights_by_content(model)
    built = build(path.stem, calls, names_of(model, shapes), weights_file, imports, loops=loops)
    plan = built.plan
    check.check_memory(plan.weights_bytes + plan.arena_bytes, "weights and intermediate tensors")
    return built


def _loop(body: LoopBody, half_weights: bool, imports: Import) -> CompiledLoop:
    """The calls of a loop's body, under names that no other value has."""
    any_size = imports.any_size
    own = Import(
        winograd=False,
        any_size=any_size,
        joins_apart=imports.joins_apart,
        numbers_apart=any_size,
    )
    model = with_known_operators(body.model, half_weights, own)
    if own.counted.found:
        raise too_much(own.counted.searches[0])
    ports = {p.name: p.type.tensor_type.shape.dim for p in model.graph.input}
    shapes = {name: tuple(d.dim_value for d in dims) for name, dims in ports.items()}
    _, calls = _calls(model, shapes, own)
    return compiled_loop(body, calls, own)


def with_known_operators(model: Any, half_weights: bool, imports: Import) -> Any:
    """The model in operators that the importer has, what follows from its shapes computed."""
    imports.halves = "rounded" if half_weights else "exact" if has_halves(model) else ""
    model = MODEL_PASSES.run(model, imports)
    own = {BYTE_FUNCTION, INTEGER_CONV, TABLE_PRODUCT, RECURRENT_OP, LOOP_OP, COUNTING_OP, TREE_OP}
    own |= {PLACES_OP, BOXES_OP, NEAREST_OP, BFLOAT16_OP}
    check.check_operators(model, tvm_adapter.supported_operators() | own)
    return model


def names_of(model: Any, shapes: dict[str, tuple[int, ...]]) -> OnnxNames:
    outputs = tuple(o.name for o in model.graph.output)
    return OnnxNames(tuple(shapes), outputs, check.consumers_of_weights(model))


def _calls(
    model: Any, shapes: dict[str, tuple[int, ...]], imports: Import
) -> tuple[Any, tvm_adapter.ImportedCalls]:
    """The model as it could be imported, and its calls."""
    how = (imports.any_size, imports.joins_apart)
    try:
        return model, tvm_adapter.import_calls(model, shapes, *how)
    except UnsupportedOpError:
        raise
    except ModelError as first:
        # Constant but computed shapes: folding them away often makes the import work.
        folded = check.fold_shapes(model)
        if folded is model:
            raise
        try:
            return folded, tvm_adapter.import_calls(folded, shapes, *how)
        except ModelError:
            raise first from None


def model_of(spec: str, program: Program, weights_file: Path) -> BuiltModel:
    """Plan, graph and weights file; inputs and output go by the program's buffer names."""

    def value(buffer: Buffer) -> Value:
        data = seeded_input(spec, buffer.name, buffer.shape) if buffer.constant else None
        return Value(buffer.name, buffer.shape, buffer.dtype, data)

    values = {b.name: value(b) for b in program.buffers}
    inputs = tuple(values[b.name] for b in program.buffers if b.role == "input")
    outputs = tuple(values[b.name] for b in program.buffers if b.role == "output")
    given = tuple(v for v in inputs if v.constant is None)
    calls = ImportedCalls(given, outputs, (ProgramCall(program, inputs, outputs),))
    names = OnnxNames([v.name for v in given], [v.name for v in outputs])
    return build(spec, calls, names, weights_file, Import())
