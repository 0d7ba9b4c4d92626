"""ONNX file in, Graph, Workloads, Plan, programs and weights out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nnjit_studio.compiler.importer.build import BuiltModel, build
from nnjit_studio.errors import ModelError, UnsupportedOpError
from nnjit_studio.model import GivenShapes

STATIC = GivenShapes()


def import_model(
    path: Path,
    weights_file: Path,
    on_phase: Callable[[str], None] = lambda phase: None,
    given: GivenShapes = STATIC,
    winograd: bool = True,
    half_weights: bool = False,
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
        Whether weights are rounded to f16 where that is cheap to read (:mod:`.halves`).

    Raises
    ------
    ModelError, UnsupportedOpError
        With one sentence and the next step.
    """
    on_phase("reading the model")
    from nnjit_studio.compiler.importer.onnx.input_shapes import fix_input_shapes
    from nnjit_studio.compiler.onnx_file import check

    model = check.load_model(path)
    shapes = fix_input_shapes(model, given)
    on_phase("loading the importer")
    from nnjit_studio.compiler import tvm_adapter
    from nnjit_studio.compiler.importer.onnx.decompose import decompose
    from nnjit_studio.compiler.importer.onnx.fold import fold
    from nnjit_studio.compiler.importer.onnx.widen_halves import has_halves, widen

    halves = "rounded" if half_weights else "exact" if has_halves(model) else ""
    model = decompose(widen(fold(check.inlined(model))))
    check.check_operators(model, tvm_adapter.supported_operators())
    on_phase("importing and fusing")
    try:
        calls = tvm_adapter.import_calls(model, shapes)
    except UnsupportedOpError:
        raise
    except ModelError as first:
        # Constant but computed shapes: folding them away often makes the import work.
        folded = check.fold_shapes(model)
        if folded is model:
            raise
        try:
            calls = tvm_adapter.import_calls(folded, shapes)
        except ModelError:
            raise first from None
        model = folded
    on_phase("planning memory")
    built = build(
        path.stem,
        calls,
        tuple(shapes),
        tuple(o.name for o in model.graph.output),
        check.weights_by_content(model),
        check.consumers_of_weights(model),
        weights_file,
        halves=halves,
        winograd=winograd,
    )
    plan = built.plan
    check.check_memory(plan.weights_bytes + plan.arena_bytes, "weights and intermediate tensors")
    return built
