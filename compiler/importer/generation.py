"""Import of a decoder with past keys and values: plans over one cache, for tokens and prompts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.compiler import tvm_adapter
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.build import build
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.decoder import kv_cache as cache
from nnjit_studio.compiler.importer.decoder.branches import (
    has_branches,
    prefill_beside,
    take_branch,
)
from nnjit_studio.compiler.importer.decoder.grouped import explicit_masks
from nnjit_studio.compiler.importer.decoder.parts import (
    IDS,
    MASK,
    POSITIONS,
    Decoder,
    find_decoder,
)
from nnjit_studio.compiler.importer.model import names_of, with_known_operators
from nnjit_studio.compiler.importer.passes import Import
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.onnx_file.input_shapes import fix_input_shapes
from nnjit_studio.compiler.onnx_file.ports import dims_of
from nnjit_studio.errors import ModelError
from nnjit_studio.model import Generation, GenerationRequest, GivenShapes
from nnjit_studio.support.phases import OnPhase, quiet

MOST_SLOTS = 1024
"""Capacity of a cache where neither the user nor the model says one."""


@dataclass(frozen=True)
class BuiltGeneration:
    """Up to three plans over one weights file and one state."""

    facts: Generation
    decode: BuiltModel
    prefill: BuiltModel | None
    extend: BuiltModel | None = None


def import_generation(
    path: Path,
    weights_file: Path,
    request: GenerationRequest,
    on_phase: OnPhase = quiet,
) -> BuiltGeneration:
    """Import a decoder for text generation.

    Raises
    ------
    ModelError, UnsupportedOpError
        With one sentence and the next step.
    """
    on_phase("reading the model")
    model = check.load_model(path)
    merged = has_branches(model)
    take_branch(model, past=True)
    decoder = find_decoder(model)
    if not request.prefill and (beside := prefill_beside(path)):
        request = replace(request, prefill=str(beside))
    capacity = _capacity(decoder, request)
    if decoder.rows not in (None, 1):
        raise ModelError(
            f"The decoder takes {decoder.rows} tokens behind a past, a decode step takes one.",
            "Export it with an open sequence length, or with 1.",
        )
    work = _Importing(path, request, decoder, Weights(weights_file), on_phase)
    decode, layout, positions = work.decode(model, capacity)
    del model
    rows, last = 0, ""
    prefill = extend = None
    if request.prefill:
        prefill, rows, last = work.prefill_of_its_own(layout)
    elif decoder.past is None and decoder.rows is None and request.rows > 1:
        rows = min(request.rows, capacity)
        prefill, last = work.prefill(layout, rows)
        # The form with a past in a merged file was exported for steps of one token.
        extend = work.extend(layout, rows) if rows < capacity and not merged else None
    work.store.finish_plan()
    facts = Generation(
        capacity, rows, IDS, MASK, decoder.logits, positions, cache.SLOT, last, extend is not None
    )
    # Only now is known how large the common weights file is.
    others = (_sized(b, work.store.nbytes) if b else None for b in (prefill, extend))
    return BuiltGeneration(facts, _sized(decode, work.store.nbytes), *others)


@dataclass(frozen=True)
class _Importing:
    """The plans of one decoder, one after the other into one weights file."""

    path: Path
    request: GenerationRequest
    parts: Decoder
    store: Weights
    on_phase: OnPhase

    def decode(self, model: Any, capacity: int) -> tuple[BuiltModel, cache.CacheLayout, str]:
        """One token behind a full past; also how the cache lies, and the input of positions."""
        placed, model, imports = self._fixed(model, 1, capacity - 1)
        layout = cache.decode_over_cache(model, self.parts, capacity, self.request.half_cache)
        return self._import(self.path, model, imports), layout, placed.positions

    def prefill(self, layout: cache.CacheLayout, rows: int) -> tuple[BuiltModel, str]:
        """The first tokens of a text; also the input that says which row's logits are wanted."""
        self.store.finish_plan(more=True)
        model = check.load_model(self.path)
        take_branch(model, past=False)
        _, model, imports = self._fixed(model, rows, 0)
        last = cache.prefill_over_cache(model, self.parts, layout, rows)
        return self._import(self.path, model, imports), last

    def extend(self, layout: cache.CacheLayout, rows: int) -> BuiltModel:
        """Tokens behind what the cache holds."""
        self.store.finish_plan(more=True)
        _, model, imports = self._fixed(check.load_model(self.path), rows, layout.capacity - rows)
        cache.extend_over_cache(model, self.parts, layout, rows)
        return self._import(self.path, model, imports)

    def prefill_of_its_own(self, layout: cache.CacheLayout) -> tuple[BuiltModel, int, str]:
        """The first tokens, by a model of fixed shapes; also their number and the row's input."""
        self.store.finish_plan(more=True)
        source = Path(self.request.prefill)
        self.on_phase("fixing the prefill's shapes")
        model = check.load_model(source)
        ids = next((port for port in model.graph.input if port.name == IDS), None)
        if ids is not None and not isinstance(dims_of(ids)[-1], int):
            cache.fix_shapes(model, self.parts, min(self.request.rows, layout.capacity), 0)
        rows = _prefill_rows(fix_input_shapes(model, GivenShapes()), layout.capacity)
        imports = Import(keep_ports=False)
        model = with_known_operators(model, self.request.half_weights, imports)
        last = cache.prefill_over_cache(model, self.parts, layout, rows)
        return self._import(source, model, imports), rows, last

    def _fixed(self, model: Any, rows: int, past: int) -> tuple[Decoder, Any, Import]:
        """The decoder for so many tokens behind so many, in operators that the importer has."""
        self.on_phase(f"fixing shapes: {rows} behind {past}")
        cache.fix_shapes(model, self.parts, rows, past)
        placed = explicit_masks(model, self.parts, rows, past)
        imports = Import(keep_ports=False)
        return placed, with_known_operators(model, self.request.half_weights, imports), imports

    def _import(self, path: Path, model: Any, imports: Import) -> BuiltModel:
        self.on_phase("importing and fusing")
        shapes = fix_input_shapes(model, GivenShapes())
        calls = tvm_adapter.import_calls(model, shapes)
        self.on_phase("planning memory")
        imports.weight_names = check.weights_by_content(model)
        states = frozenset(p.input for p in self.parts.pasts)
        return build(path.stem, calls, names_of(model, shapes), self.store, imports, states)


def _sized(built: BuiltModel, weights_bytes: int) -> BuiltModel:
    """A model over a weights file of this size."""
    return replace(built, plan=replace(built.plan, weights_bytes=weights_bytes))


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
