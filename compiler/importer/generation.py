"""A decoder with past keys and values in; a decode and a prefill plan over one cache out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.compiler.importer.build import BuiltModel, build
from nnjit_studio.compiler.importer.weights import Weights
from nnjit_studio.errors import ModelError
from nnjit_studio.graph import Generation, GivenShapes

DEFAULT_CAPACITY = 1024


@dataclass(frozen=True)
class GenerationRequest:
    """What the user may choose.

    Attributes
    ----------
    capacity
        Slots of the cache; None: as many as the model has positions, at most
        :data:`DEFAULT_CAPACITY`.
    rows
        Tokens that the prefill plan takes; below 2 there is none.
    prefill
        A model of the prefill of its own, for a decoder of fixed shapes.
    """

    capacity: int | None = None
    rows: int = 128
    prefill: Path | None = None


@dataclass(frozen=True)
class BuiltGeneration:
    """Two plans over one weights file and one state."""

    facts: Generation
    decode: BuiltModel
    prefill: BuiltModel | None


def import_generation(
    path: Path,
    weights_file: Path,
    request: GenerationRequest,
    on_phase: Callable[[str], None] = lambda phase: None,
) -> BuiltGeneration:
    """Import a decoder for text generation.

    Raises
    ------
    ModelError, UnsupportedOpError
        With one sentence and the next step.
    """
    on_phase("reading the model")
    from nnjit_studio.compiler.importer import cache, check
    from nnjit_studio.compiler.importer.input_shapes import fix_input_shapes

    model = check.load_model(path)
    decoder = cache.find_decoder(model)
    capacity = _capacity(decoder, request)
    if decoder.rows not in (None, 1):
        raise ModelError(
            f"The decoder takes {decoder.rows} tokens behind a past, a decode step takes one.",
            "Export it with an open sequence length, or with 1.",
        )
    on_phase("fixing the decode step's shapes")
    cache.fix_shapes(model, decoder, 1, capacity - 1)
    model = _known(check.fold_shapes(model))
    layout = cache.decode_over_cache(model, decoder, capacity)
    pasts = frozenset(p.input for p in decoder.pasts)
    store = Weights(weights_file)
    decode = _import(path, model, store, pasts, on_phase)
    del model
    rows = 0
    prefill = None
    last = ""
    if request.prefill is not None or (decoder.past is None and request.rows > 1):
        store.finish_plan(more=True)
        source = request.prefill or path
        on_phase("fixing the prefill's shapes")
        model = check.load_model(source)
        if request.prefill is None:
            rows = min(request.rows, capacity)
            cache.fix_shapes(model, decoder, rows, 0)
        else:
            rows = fix_input_shapes(model, GivenShapes())[cache.IDS][1]
        model = _known(check.fold_shapes(model))
        last = cache.prefill_over_cache(model, decoder, layout, rows)
        prefill = _import(source, model, store, pasts, on_phase)
    store.finish_plan()
    # Only now is known how large the common weights file is.
    decode, prefill = (
        built and replace(built, plan=replace(built.plan, weights_bytes=store.nbytes))
        for built in (decode, prefill)
    )
    assert decode is not None
    facts = Generation(
        capacity, rows, cache.IDS, cache.MASK, decoder.logits, decoder.positions, cache.SLOT, last
    )
    return BuiltGeneration(facts, decode, prefill)


def _capacity(decoder: Any, request: GenerationRequest) -> int:
    longest = decoder.longest
    if decoder.past is not None:
        fixed = decoder.past + 1
        if request.capacity not in (None, fixed):
            raise ModelError(
                f"The model's past has {decoder.past} tokens, so its cache holds {fixed}.",
                "Leave out --capacity, or export it with an open past.",
            )
        return int(fixed)
    capacity = request.capacity or min(DEFAULT_CAPACITY, longest or DEFAULT_CAPACITY)
    if capacity < 2 or (longest is not None and capacity > longest):
        limit = f"2 to {longest}" if longest else "at least 2"
        raise ModelError(f"A cache of {capacity} slots does not fit the model.", f"Choose {limit}.")
    return int(capacity)


def _known(model: Any) -> Any:
    """The model, which must have kept no operator that reads a shape."""
    for node in model.graph.node:
        if node.op_type == "Shape":
            raise ModelError(
                f"The shape that node {node.name or node.output[0]!r} reads could not be computed "
                "ahead.",
                "Simplify the model, for example with onnxruntime's offline optimisation.",
            )
    return model


def _import(
    path: Path,
    model: Any,
    store: Weights,
    pasts: frozenset[str],
    on_phase: Callable[[str], None],
) -> BuiltModel:
    from nnjit_studio.compiler import tvm_adapter
    from nnjit_studio.compiler.importer import check
    from nnjit_studio.compiler.importer.decompose import decompose
    from nnjit_studio.compiler.importer.input_shapes import fix_input_shapes

    model = decompose(model)
    supported = tvm_adapter.supported_operators() | {tvm_adapter.APPEND_OP}
    check.check_operators(model, supported)
    on_phase("importing and fusing")
    shapes = fix_input_shapes(model, GivenShapes())
    calls = tvm_adapter.import_calls(model, shapes)
    on_phase("planning memory")
    return build(
        path.stem,
        calls,
        tuple(shapes),
        tuple(o.name for o in model.graph.output),
        check.weights_by_content(model),
        check.consumers_of_weights(model),
        store,
        pasts,
    )
