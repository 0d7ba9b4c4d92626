"""Statements in their order by a team, such as those of a recurrent layer.

Loops whose iterations are independent are dealt out to the members, who wait for one another behind
each; one member runs the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.rewrite import loops_in, plus
from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    If,
    Load,
    Loop,
    Statement,
    Store,
    Var,
    stores_in,
)
from nnjit_studio.compiler.recognize.recurrent import LANES_VAR, product_of
from nnjit_studio.compiler.wgsl.core.memory import GROUP
from nnjit_studio.compiler.wgsl.core.nests import Nest
from nnjit_studio.compiler.wgsl.core.points import Lane
from nnjit_studio.compiler.wgsl.core.reductions import Reductions
from nnjit_studio.compiler.wgsl.core.values import Block, identifier


class TeamSteps(Reductions):
    """Reductions, and what teams do one after another."""

    def _steps_together(self, nest: Nest) -> None:
        inside = Block(self.context, self.top)
        self._in_order(inside, nest.steps)
        self.top.forget(nest.written)
        self.top.inner(f"if ({self.live}) {{" if self.live else "{", inside)

    def _in_order(self, block: Block, steps: Sequence[Statement]) -> None:
        for step in steps:
            written = {s.buffer for s in stores_in((step,))}
            block.forget(written)
            product = product_of(step)
            if product is not None:
                along, sums, stores = product
                for store in stores:
                    self._sums(block, along, sums, store)
            elif isinstance(step, Loop) and step.var == LANES_VAR:
                self._dealt(block, step)
            elif isinstance(step, If) or (
                isinstance(step, Loop) and any(o.var == LANES_VAR for o in loops_in(step.body))
            ):
                # A condition is one of loop variables alone: true for all members or for none.
                self._nested(block, step, self._in_order)
                continue
            else:
                inside = Block(self.context, block)
                self._steps(inside, (step,))
                block.inner("if (member == 0) {", inside)
            block.forget(written)
            if written - self.local.keys():
                block.lines.append("storageBarrier();")
            block.lines.append("workgroupBarrier();")

    def _dealt(self, block: Block, loop: Loop) -> None:
        """Iterations of an independent loop, to each member some."""
        self.context.ranges[loop.var] = (0, loop.extent - 1)
        inside, name = Block(self.context, block), identifier(loop.var)
        self._steps(inside, loop.body)
        team = self.group.team
        head = f"for (var {name} = member; {name} < {loop.extent}; {name} += {team}) {{"
        block.inner(head, inside)

    def _sums(self, block: Block, along: Loop, sums: Loop, store: Store) -> None:
        """A product: each member keeps its sums in registers, neighbours where rows allow it."""
        size = 1 if sums.extent % GROUP else GROUP
        self.context.ranges[sums.var] = (0, sums.extent - 1)
        inside = Block(self.context, block)
        inside.lines.append(f"let {identifier(sums.var)} = q * {size};")
        lanes: list[Lane] = [{sums.var: plus(Var(sums.var), i)} for i in range(size)]
        first = Store(store.buffer, store.index, Load(store.buffer, store.index))
        axis = Axis(along.var, along.extent, "reduce")
        nest = Nest("product", (), (axis,), (store,), (first,))
        self._write(inside, self._reduced(inside, nest, lanes), lanes, ())
        head = f"for (var q = member; q < {sums.extent // size}; q += {self.group.team}) {{"
        block.inner(head, inside)
