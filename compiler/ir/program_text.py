"""The text form of tensor IR: buffers, then each stage as the loops that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnjit_studio.compiler.ir.loop_text import expr_text
from nnjit_studio.compiler.ir.tensor_ir import If, Loop, Program, Stage, Statement, Store


def program_text(program: Program) -> str:
    """One line for each buffer, loop and store."""
    lines = []
    for b in program.buffers:
        shape = "x".join(map(str, b.shape)) or "scalar"
        lines.append(f"{b.name}: {b.role} {b.dtype} {shape}" + (", constant" if b.constant else ""))
    for stage in program.stages:
        lines += [f"# {stage.name}", *_stage(stage)]
    return "\n".join(lines) + "\n"


def _stage(stage: Stage) -> Iterator[str]:
    depth = 0
    for axis in stage.axes:
        if axis.kind == "reduce" and stage.init:
            yield from _statements(stage.init, depth)
            stage = Stage(stage.name, (), stage.body, (), stage.steps)
        reduces = "  # reduction" if axis.kind == "reduce" else ""
        yield "  " * depth + f"for {axis.var} in range(0, {axis.extent}, 1):{reduces}"
        depth += 1
    yield from _statements(stage.init, depth)
    yield from _statements(stage.body, depth)
    yield from _statements(stage.steps, depth)


def _statements(statements: Sequence[Statement], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for statement in statements:
        if isinstance(statement, Store):
            target = f"{statement.buffer}[{expr_text(statement.index)}]"
            yield f"{pad}{target} = {expr_text(statement.value)}"
        elif isinstance(statement, Loop):
            yield f"{pad}for {statement.var} in range(0, {statement.extent}, 1):"
            yield from _statements(statement.body, depth + 1)
        else:
            assert isinstance(statement, If)
            yield f"{pad}if {expr_text(statement.condition)}:"
            yield from _statements(statement.then, depth + 1)
            if statement.otherwise:
                yield f"{pad}else:"
                yield from _statements(statement.otherwise, depth + 1)
