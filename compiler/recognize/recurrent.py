"""Recurrent layers: the programs that an import makes of them, a stage of serial loops each."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.affine import variables
from nnjit_studio.compiler.ir.rewrite import loops_in
from nnjit_studio.compiler.ir.tensor_ir import Loop, Statement, Store

STAGE, LANES_VAR = "recurrent", "j"
"""The stage, and the variable of those of its loops whose iterations are independent and
contiguous."""


def widest(stage: str, steps: Sequence[Statement]) -> int:
    """Iterations of a stage's longest independent loop; 0 of any other stage."""
    if stage != STAGE:
        return 0
    return max((loop.extent for loop in loops_in(steps) if loop.var == LANES_VAR), default=0)


def product_of(step: Statement) -> tuple[Loop, Loop, tuple[Store, ...]] | None:
    """A loop that adds to independent sums, the loop over these in it, and what it adds."""
    match step:
        case Loop(body=(Loop() as sums,)) if step.var != LANES_VAR and sums.var == LANES_VAR:
            stores = tuple(s for s in sums.body if isinstance(s, Store))
            moves = any(step.var in variables(s.index) for s in stores)
            return None if moves or len(stores) < len(sums.body) else (step, sums, stores)
    return None
