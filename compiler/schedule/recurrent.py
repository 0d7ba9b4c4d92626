"""The recurrent template: steps one after another, gates and states on lanes."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.affine import LANES
from nnjit_studio.compiler.ir.loops import BEGIN, END, For, Let, Put, Scheduled, Statement, When
from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import Loop, Program, Store, Var
from nnjit_studio.compiler.ir.tensor_ir import Statement as Step
from nnjit_studio.compiler.recognize.recurrent import LANES_VAR, STAGE


def schedule_recurrent(program: Program) -> Scheduled | None:
    """The loops, the batch the parallel one; None for any other program."""
    if [stage.name for stage in program.stages] != [STAGE] or not program.stages[0].steps:
        return None
    (stage,) = program.stages
    (batch,) = stage.axes
    body: list[Statement] = [Let(batch.var, Var("$p"), _statements(stage.steps))]
    return Scheduled([For("$p", Var(BEGIN), Var(END), 1, body)], batch.extent)


def _statements(steps: Sequence[Step]) -> list[Statement]:
    made: list[Statement] = []
    for step in steps:
        if isinstance(step, Store):
            made.append(Put((step,)))
        elif isinstance(step, Loop):
            made += _loop(step)
        else:
            made.append(When(step.condition, _statements(step.then), _statements(step.otherwise)))
    return made


def _loop(loop: Loop) -> list[Statement]:
    if loop.var != LANES_VAR:
        return [For(loop.var, int32(0), int32(loop.extent), 1, _statements(loop.body))]
    whole = loop.extent // LANES * LANES
    lanes: list[Statement] = [Put((s,), loop.var) for s in loop.body if isinstance(s, Store)]
    made: list[Statement] = [For(loop.var, int32(0), int32(whole), LANES, lanes)] if whole else []
    if whole < loop.extent:
        rest = _statements(loop.body)
        made.append(For(loop.var, int32(whole), int32(loop.extent), 1, rest))
    return made
