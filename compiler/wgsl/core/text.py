"""Text of the intermediate forms, for dumps and goldens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnjit_studio.compiler.ir.loop_text import expr_text
from nnjit_studio.compiler.ir.tensor_ir import Axis, If, Loop, Statement, Store
from nnjit_studio.compiler.wgsl.core.groups import Group
from nnjit_studio.compiler.wgsl.core.nests import Nest, tidy
from nnjit_studio.compiler.wgsl.core.prepare import Prepared


def prepared_text(prepared: Prepared) -> str:
    """Buffers, then stages."""
    lines = []
    for b in prepared.program.buffers:
        plain = ", a word for each element" if b.name in prepared.plain else ""
        shape = "x".join(map(str, b.shape)) or "scalar"
        lines.append(f"{prepared.names[b.name]}: {b.role} {b.name} {b.dtype} {shape}{plain}")
    for stage in prepared.program.stages:
        lines += _nest(tidy(stage), 0)
    return "\n".join(lines) + "\n"


def group_text(group: Group) -> str:
    """How the threads of a dispatch share its work, then its nests."""
    tile = ", ".join(f"{size} along {var}" for var, size in group.tile)
    across = ", neighbours in neighbouring teams" if group.across else ""
    lines = [
        f"dispatch over {_axes(group.outer)}: {group.threads} threads a workgroup, "
        f"{group.team} a point{across}" + (f", tile {tile}" if tile else "")
    ]
    lines += [f"  {name}: {size} elements in workgroup memory" for name, size in group.local]
    for nest in group.nests:
        lines += _nest(nest, len(group.outer))
    return "\n".join(lines) + "\n"


def _axes(axes: Sequence[Axis]) -> str:
    return " ".join(f"{a.var}<{a.extent}" for a in axes) or "one point"


def _nest(nest: Nest, outer: int) -> Iterator[str]:
    reduce = f", reducing {_axes(nest.reduce)}" if nest.reduce else ""
    yield f"  {nest.name}: {_axes(nest.spatial[outer:])}{reduce}"
    for store in nest.init:
        yield f"    first {_store(store)}"
    for store in nest.body:
        yield f"    {_store(store)}"
    yield from _steps(nest.steps, 4)


def _store(store: Store) -> str:
    return f"{store.buffer}[{expr_text(store.index)}] = {expr_text(store.value)}"


def _steps(steps: Sequence[Statement], pad: int) -> Iterator[str]:
    for step in steps:
        if isinstance(step, Store):
            yield " " * pad + _store(step)
        elif isinstance(step, Loop):
            yield " " * pad + f"for {step.var} < {step.extent}:"
            yield from _steps(step.body, pad + 2)
        else:
            assert isinstance(step, If)
            yield " " * pad + f"if {expr_text(step.condition)}:"
            yield from _steps(step.then, pad + 2)
            if step.otherwise:
                yield " " * pad + "else:"
                yield from _steps(step.otherwise, pad + 2)
