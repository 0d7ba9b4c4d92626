"""A file made of another by a recipe. Runs in the compile process: the file is a stranger's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import onnx

from nnjit_studio.compiler.derived import quantise
from nnjit_studio.compiler.derived.by_row import by_row
from nnjit_studio.compiler.derived.cut import keep_outputs, make_constant
from nnjit_studio.compiler.derived.lifted import lifted
from nnjit_studio.compiler.onnx_file import check
from nnjit_studio.compiler.oracle.onnx_reference import MESSAGE_BYTES
from nnjit_studio.errors import UserError
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.recipe import (
    CONSTANTS,
    FOUR_BIT,
    HALVED,
    INT8_DYNAMIC,
    INT8_ROWS,
    INT8_STATIC,
    OUTPUTS,
    Derived,
    Recipe,
)
from nnjit_studio.support.phases import OnPhase, quiet

T = TypeVar("T")
OUT_OF_MEMORY = ("bad_alloc", "bad allocation", "Failed to allocate memory")
"""In errors of ONNX Runtime."""
COUNTED = ("DynamicQuantizeLinear", "QuantizeLinear", "DequantizeLinear", "MatMulNBits")


def derive(
    path: Path,
    out: Path,
    recipe: Recipe,
    feeds: Feeds,
    on_phase: OnPhase = quiet,
) -> Derived:
    """Write the file that a recipe makes.

    Parameters
    ----------
    feeds
        Inputs by name; what static quantisation measures the ranges of activations on.
    on_phase
        Is told what is tried, where that takes long.

    Raises
    ------
    ModelError
        When the file is no valid model.
    UserError
        When the recipe does not fit it.
    """
    model = check.load_model(path)
    if model.ByteSize() > MESSAGE_BYTES:
        raise UserError("The model is larger than 2 GiB, more than the tools take in one piece.")
    before, note = len(model.graph.node), ""
    if recipe.kind == OUTPUTS:
        made = keep_outputs(model, recipe.outputs)
        changed = before - len(made.graph.node)
    elif recipe.kind == CONSTANTS:
        made, changed = make_constant(model, recipe.constants), len(recipe.constants)
    elif recipe.kind == HALVED:
        made, changed = quantise.halved(lifted(model))
    elif recipe.kind == INT8_ROWS:
        found = _quantised(lifted(model), lambda m: by_row(m, feeds, recipe.max_error, on_phase))
        made, changed = found.model, found.products
        note = f"{changed} of {found.of} products are in 8 bits, the others as they were."
        if found.of and not changed:
            raise UserError(f"No product keeps an error of {recipe.max_error:.2g} in 8 bits.")
    else:
        tools = {
            INT8_DYNAMIC: quantise.dynamic,
            INT8_STATIC: lambda m: quantise.static(m, feeds),
            FOUR_BIT: quantise.four_bit,
        }
        made = _quantised(lifted(model), tools[recipe.kind])
        changed = sum(node.op_type in COUNTED for node in made.graph.node)
    del model  # a process has room for few copies of a file
    onnx.save_model(made, str(out))
    return Derived(changed, out.stat().st_size, note)


def _quantised(model: onnx.ModelProto, tool: Callable[[onnx.ModelProto], T]) -> T:
    if any(node.op_type in (*COUNTED, "MatMulInteger") for node in model.graph.node):
        raise UserError("The model is quantised already.")
    try:
        return tool(model)
    except (MemoryError, UserError):
        raise
    except Exception as e:  # ONNX Runtime and its tools raise whatever they meet
        reason = (str(e).strip().splitlines() or [type(e).__name__])[0][:200]
        if any(words in str(e) for words in OUT_OF_MEMORY):
            raise MemoryError(reason) from e
        raise UserError(f"The weights could not be made smaller: {reason}") from e
