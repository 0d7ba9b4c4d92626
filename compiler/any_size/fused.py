"""Attention as one call of a plan for any size, in the place of three.

The import keeps three, so that Wasm or a GPU may run these where it has no kernel for all sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace

from nnjit_studio.compiler.any_size.kernels.compiled import At
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.importer.program.fuse_attention import fuse_attention
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.tvm_adapter import ImportedCalls, ProgramCall, Value
from nnjit_studio.compiler.tvm_adapter.origins import Origin
from nnjit_studio.model import Plan, PlanStep
from nnjit_studio.model.size import Dim
from nnjit_studio.space.wasm.attention import ATTENTION

_LARGE = 37
"""Steps of a dimension at which attention is looked for."""


@dataclass(frozen=True)
class Fused:
    """Calls that may be one."""

    positions: tuple[int, ...]
    """Of the calls among all calls; the last one's place is that of the one."""
    parts: tuple[tuple[PlanStep, At], ...]
    """These calls, and the program of each."""
    args: tuple[int, ...]
    """Buffers of the one: inputs, then its output."""
    inner: int
    """Buffers behind these that nothing follows: scores and weights."""

    def program(self, sizes: Mapping[str, int]) -> Program:
        """The one program at sizes of the dimensions.

        Raises
        ------
        ModelError
            When it is no attention at these sizes.
        """
        given = [_call(at(sizes), step, i) for i, (step, at) in enumerate(self.parts)]
        made = _fused(given, given[-1].outputs)
        if len(made) != 1:
            raise refused(f"at {dict(sizes)} three kernels are expected to be faster")
        return made[0].program


Attentions = Mapping[str, Sequence[Fused]]
"""The calls that share one kernel, by its name."""


def attentions(
    plan: Plan, steps: Sequence[PlanStep], programs: Sequence[At], dims: Sequence[Dim]
) -> Attentions:
    """The attentions of a model, each of which may be one call.

    Parameters
    ----------
    plan
        Where its steps' buffers are.
    steps
        The same with the names of their kernels.
    programs
        Of each call.
    """
    run = [at for at, step in enumerate(steps) if step.op == "call"]
    # A softmax of fewer columns than a vector has is none of its template.
    least = enumerate(dims, _LARGE)
    sizes = {d.name: d.step * max(i, -(-d.low // d.step)) for i, d in least}
    given = [_call(programs[n](sizes), steps[at], n) for n, at in enumerate(run)]
    results = [Value(str(port.buffer), (), "f32") for port in plan.outputs]
    outside = {place for step in steps if step.op != "call" for place in held(step)}
    made: dict[tuple[str, ...], list[Fused]] = {}
    for call in _fused(given, results):
        if call.program.name != ATTENTION:
            continue
        positions = tuple(map(int, call.origin.nodes))
        places = [run[n] for n in positions]
        parts = tuple((steps[at], programs[n]) for n, at in zip(positions, places, strict=True))
        args = tuple(int(value.name) for value in (*call.inputs, *call.outputs))
        between = {place for step, _ in parts[:-1] for place in step.args}.difference(args)
        alone = all(step.op == "call" for step in steps[places[0] : places[-1]])
        if alone and not between & outside:
            inner = sum(b.role == "workspace" for b in call.program.buffers)
            names = tuple(step.workload for step, _ in parts)
            made.setdefault(names, []).append(Fused(positions, parts, args, inner))
    return {f"{ATTENTION}:{n}": each for n, each in enumerate(made.values())}


def held(step: PlanStep) -> Iterator[int]:
    """Buffers that others than kernels read: a copy, or the next run of a loop."""
    yield from step.args
    if step.loop:
        yield from (place for carried in step.loop.carried for place in astuple(carried))
        yield from (rows.row for rows in step.loop.rows)
        yield from (place for copy in step.loop.copies for place in copy)


def in_one(
    steps: Sequence[PlanStep],
    found: Attentions,
    args: Callable[[str, Fused], tuple[int, ...]] = lambda name, fused: fused.args,
) -> tuple[PlanStep, ...]:
    """The steps with one call, of these buffers, in the place of three."""
    run = [at for at, step in enumerate(steps) if step.op == "call"]
    made: list[PlanStep | None] = [*steps]
    for name, each in found.items():
        for fused in each:
            *others, last = (run[n] for n in fused.positions)
            for at in others:
                made[at] = None
            made[last] = replace(steps[last], workload=name, args=args(name, fused))
    return tuple(step for step in made if step is not None)


def _fused(given: Sequence[ProgramCall], results: Sequence[Value]) -> tuple[ProgramCall, ...]:
    return fuse_attention(ImportedCalls((), tuple(results), tuple(given)), {}).calls


def _call(program: Program, step: PlanStep, position: int) -> ProgramCall:
    """A call whose values are called by their buffers, and its node by its position."""
    values: dict[str, list[Value]] = {"input": [], "output": []}
    for buffer, place in zip(program.buffers, step.args, strict=False):
        if buffer.role in values:
            values[buffer.role].append(Value(str(place), buffer.shape, buffer.dtype))
    origin = Origin((str(position),))
    return ProgramCall(program, tuple(values["input"]), tuple(values["output"]), origin)
