"""Import of a decoder with past keys and values: a decode and a prefill plan over one cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.compiler import tvm_adapter
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.build import build
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.model import names_of, with_known_operators
from nnjit_studio.compiler.importer.onnx import kv_cache as cache
from nnjit_studio.compiler.importer.onnx.decoder import IDS, MASK, POSITIONS, find_decoder
from nnjit_studio.compiler.importer.onnx.input_shapes import fix_input_shapes
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.errors import ModelError
from nnjit_studio.model import Generation, GenerationRequest, GivenShapes

MOST_SLOTS = 1024
"""Capacity of a cache where neither the user nor the model says one."""


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
    model = check.load_model(path)
    decoder = find_decoder(model)
    capacity = _capacity(decoder, request)
    if decoder.rows not in (None, 1):
        raise ModelError(
            f"The decoder takes {decoder.rows} tokens behind a past, a decode step takes one.",
            "Export it with an open sequence length, or with 1.",
        )
    on_phase("fixing the decode step's shapes")
    cache.fix_shapes(model, decoder, 1, capacity - 1)
    imports = Import(keep_ports=False)
    model = with_known_operators(model, request.half_weights, imports)
    layout = cache.decode_over_cache(model, decoder, capacity)
    pasts = frozenset(p.input for p in decoder.pasts)
    store = Weights(weights_file)
    decode = _import(path, model, store, pasts, imports, on_phase)
    del model
    rows = 0
    prefill = None
    last = ""
    if request.prefill or (decoder.past is None and request.rows > 1):
        store.finish_plan(more=True)
        source = Path(request.prefill or path)
        on_phase("fixing the prefill's shapes")
        model = check.load_model(source)
        if not request.prefill:
            rows = min(request.rows, capacity)
            cache.fix_shapes(model, decoder, rows, 0)
        else:
            rows = _prefill_rows(fix_input_shapes(model, GivenShapes()), capacity)
        imports = Import(keep_ports=False)
        model = with_known_operators(model, request.half_weights, imports)
        last = cache.prefill_over_cache(model, decoder, layout, rows)
        prefill = _import(source, model, store, pasts, imports, on_phase)
    store.finish_plan()
    facts = Generation(
        capacity, rows, IDS, MASK, decoder.logits, decoder.positions, cache.SLOT, last
    )
    # Only now is known how large the common weights file is.
    return BuiltGeneration(
        facts, _sized(decode, store.nbytes), _sized(prefill, store.nbytes) if prefill else None
    )


def _sized(built: BuiltModel, weights_bytes: int) -> BuiltModel:
    """A model, and its form for GPUs, over a weights file of this size."""
    plan = replace(built.plan, weights_bytes=weights_bytes)
    return replace(built, plan=plan, gpu=_sized(built.gpu, weights_bytes) if built.gpu else None)


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
    capacity = request.capacity or min(MOST_SLOTS, longest or MOST_SLOTS)
    if capacity < 2 or (longest is not None and capacity > longest):
        limit = f"2 to {longest}" if longest else "at least 2"
        raise ModelError(f"A cache of {capacity} slots does not fit the model.", f"Choose {limit}.")
    return int(capacity)


def _prefill_rows(inputs: Mapping[str, tuple[int, ...]], capacity: int) -> int:
    """Tokens that a prefill model of its own takes."""
    if other := inputs.keys() - {IDS, MASK, POSITIONS}:
        raise ModelError(
            f"The input {min(other)!r} of the prefill model plays no known part.",
            "Export it without a past: ids, and maybe mask and positions.",
        )
    batch, rows = inputs.get(IDS, (0, 0))
    if batch != 1 or not 2 <= rows <= capacity:
        raise ModelError(
            f"The prefill model must have an input {IDS!r} of 1 x 2 to 1 x {capacity} tokens.",
            "Export it with a fixed length that the decoder's cache can hold.",
        )
    return rows


def _import(
    path: Path,
    model: Any,
    store: Weights,
    pasts: frozenset[str],
    imports: Import,
    on_phase: Callable[[str], None],
) -> BuiltModel:
    on_phase("importing and fusing")
    shapes = fix_input_shapes(model, GivenShapes())
    calls = tvm_adapter.import_calls(model, shapes)
    on_phase("planning memory")
    imports.weight_names = check.weights_by_content(model)
    return build(path.stem, calls, names_of(model, shapes), store, imports, pasts)
