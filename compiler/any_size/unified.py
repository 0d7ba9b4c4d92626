"""Static imports at sample sizes, unified number by number into one program for any size."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.compiler.any_size.constants import Made
from nnjit_studio.compiler.any_size.formulas.fit import Numbers
from nnjit_studio.compiler.any_size.kernels.several import first
from nnjit_studio.compiler.any_size.refusal import DIFFERENT_STEPS, refused
from nnjit_studio.compiler.any_size.tree import Number, numbers, skeleton, template, with_numbers
from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.model import Plan, PlanStep, TensorSpec, Workload
from nnjit_studio.model.open_plan import quotient
from nnjit_studio.model.size import Size, size
from nnjit_studio.model.storage import placed


@dataclass(frozen=True)
class Parts:
    """What depends on sizes: the plan without places, each call's program, the tensors."""

    plan: Plan
    programs: tuple[Program, ...]
    tensors: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Unified:
    """The program for any size: one sample, and formulas for the numbers that vary.

    ``formulas`` are by the place of a number in the sample; a float is that of its size, with
    ``inverse`` one over it, or its quotient by the one in ``over``.
    """

    sample: BuiltModel
    parts: Parts
    formulas: Mapping[int, Size]
    inverse: frozenset[int]
    over: Mapping[int, Size]
    constants: Mapping[int, Made]

    def in_common(self, store: Weights, content: NDArray[np.uint8]) -> Unified:
        """The same with the sample's weights in a common file."""
        buffers = []
        for i, b in enumerate(self.sample.plan.buffers):
            if b.region == "weight" and i not in self.constants:
                data = content[b.offset : b.offset + b.nbytes]
                b = replace(b, offset=store.place(data, b.nbytes, b.pack))
            buffers.append(b)
        plan = replace(self.sample.plan, buffers=tuple(buffers))
        return replace(self, sample=replace(self.sample, plan=plan))

    def at(self, sizes: Mapping[str, int], store: Weights) -> BuiltModel:
        """The static form at these sizes: what an import there would give, with a memory plan.

        Constants that depend on sizes are added to the weights.
        """
        parts = with_numbers(self.parts, self._numbers(sizes))
        shapes = {
            place: buffer.shape
            for step, program in zip(calls(self.sample.plan), parts.programs, strict=True)
            for place, buffer in zip(step.args, program.buffers, strict=True)
        }
        buffers = list(parts.plan.buffers)
        for i, b in enumerate(self.sample.plan.buffers):
            if b.region == "weight":
                offset = b.offset
                if i in self.constants:
                    data = self.constants[i].at(shapes[i])
                    offset = store.place(data, data.nbytes, None)
                buffers[i] = replace(buffers[i], offset=offset)
        plan = replace(parts.plan, buffers=tuple(buffers))
        return _built(self.sample, replace(parts, plan=plan))

    def gives(self, sizes: Mapping[str, int], imported: BuiltModel) -> bool:
        """Whether an import at these sizes has the numbers that the formulas tell."""
        parts = _parts(imported)
        if _form(parts) != _form(self.parts):
            return False
        pairs = zip(numbers(parts), self._numbers(sizes), strict=True)
        return all(n == m or (isinstance(m, float) and _f32(n) == m) for n, m in pairs)

    def symbolic(self) -> Any:
        """Its parts, with formulas in the place of whole numbers that vary."""
        found = (self.formulas.get(i, n) for i, n in enumerate(numbers(self.parts)))
        return with_numbers(self.parts, found)  # type: ignore[arg-type]

    def check_shapes(self, sizes: Mapping[str, int], shapes: Mapping[str, Sequence[int]]) -> None:
        """Refuse what gives outputs of other shapes than ONNX Runtime at these sizes."""
        for port in self.symbolic().plan.outputs:
            made = [size(n).at(sizes) for n in port.spec.shape]
            if not port.found and made != list(shapes[port.spec.name]):
                text = ", ".join(f"{name}={n}" for name, n in sizes.items())
                raise refused(f"no formula holds at {text}")

    def program(self, position: int) -> Callable[[Mapping[str, int]], Program]:
        """The program of a call, by its position among calls, at sizes of the dimensions."""
        program = self.parts.programs[position]
        start = self._starts[position]
        open_ = {i: n for i, n in enumerate(numbers(program)) if start + i in self.formulas}
        made = template(program, open_)
        return lambda sizes: made({i: self._at(start + i, n, sizes) for i, n in open_.items()})

    @cached_property
    def _starts(self) -> list[int]:
        """The place of each program's first number."""
        before = (self.parts.plan, *self.parts.programs)
        return list(itertools.accumulate(sum(1 for _ in numbers(part)) for part in before))

    def _numbers(self, sizes: Mapping[str, int]) -> Iterator[Number]:
        for place, number in enumerate(numbers(self.parts)):
            yield self._at(place, number, sizes) if place in self.formulas else number

    def _at(self, place: int, number: Number, sizes: Mapping[str, int]) -> Number:
        """What is at a place of the parts in the place of a number; floats at several sizes are
        those of the first."""
        n = self.formulas[place].at(sizes)
        if isinstance(number, int):
            return n
        if place in self.over:
            return _f32(quotient(first(n), first(self.over[place].at(sizes))))
        return _f32(quotient(1, first(n))) if place in self.inverse else float(first(n))


def unify(
    samples: Sequence[BuiltModel], fits: Mapping[int, Numbers], constants: Mapping[int, Made]
) -> Unified:
    """One program of imports at several sizes, of which each number has a formula.

    Parameters
    ----------
    fits
        Formulas for numbers at so many of the samples, the first ones. Behind the fewest of these
        a program may have another form; its numbers there then do not count.

    Raises
    ------
    ModelError
        When the imports differ in more than numbers, or a number has no formula.
    """
    parts = [_parts(sample) for sample in samples]
    rows = list(_rows(parts, min(fits)))
    whole = {row for row in rows if all(isinstance(n, int) for n in row) and len(set(row)) > 1}
    for count, fit in fits.items():
        fit.learn(row for row in rows if row in whole and len(row) == count)
    for row in sorted(whole):  # parts before what is made of them
        fits[len(row)].formula(row)
    formulas: dict[int, Size] = {}
    inverses: set[int] = set()
    over: dict[int, Size] = {}
    for place, row in enumerate(rows):
        if len(set(row)) == 1:
            continue
        fit = fits[len(row)]
        formula = fit.formula(tuple(map(int, row)))
        if isinstance(row[0], float) and any(n != int(n) for n in row):
            formula = inverse(fit, row)
            if formula is not None:
                inverses.add(place)
            elif pair := fit.quotient(row):
                formula, over[place] = pair
        if formula is None:
            what = "a factor of a kernel" if isinstance(row[0], float) else "a number"
            shown = ", ".join(str(n) if isinstance(n, int) else f"{n:.6g}" for n in row)
            raise refused(f"there is no formula for {what} that is {shown}")
        formulas[place] = formula
    return Unified(samples[0], parts[0], formulas, frozenset(inverses), over, constants)


def _rows(parts: Sequence[Parts], least: int) -> Iterator[tuple[Any, ...]]:
    """Each number at all samples, or at the first ones where its program has that form at these
    alone.

    Raises
    ------
    ModelError
        When the samples differ in more.
    """
    pieces = [(part.plan, *part.programs, *part.tensors) for part in map(_unnamed, parts)]
    if len(set(map(len, pieces))) > 1:
        raise refused(DIFFERENT_STEPS)
    for piece in zip(*pieces, strict=True):
        form = skeleton(piece[0])
        same = [skeleton(each) == form for each in piece]
        if not all(same[:least]):
            raise refused(DIFFERENT_STEPS)
        alike = piece if all(same) else piece[:least]
        yield from zip(*map(numbers, alike), strict=True)


def inverse(fit: Numbers, row: Sequence[float]) -> Size | None:
    """The formula of what these are one over."""
    whole = tuple(round(1 / n) if n else 0 for n in row)
    right = all(n and _f32(1 / n) == _f32(value) for n, value in zip(whole, row, strict=True))
    return fit.formula(whole) if right else None


def _form(parts: Parts) -> Any:
    """All but numbers and names."""
    return skeleton(_unnamed(parts))


def _unnamed(parts: Parts) -> Parts:
    """Without names of tensors, since a large constant may have another one, and of stages, which
    tell the first node that they were made of."""
    programs = tuple(
        replace(program, stages=tuple(replace(stage, name="") for stage in program.stages))
        for program in parts.programs
    )
    tensors = tuple(replace(tensor, name="") for tensor in parts.tensors)
    return replace(parts, programs=programs, tensors=tensors)


def _f32(value: float) -> float:
    return float(np.float32(value))


def calls(plan: Plan) -> list[PlanStep]:
    return [step for step in plan.steps if step.op == "call"]


def _parts(built: BuiltModel) -> Parts:
    plan = built.plan
    buffers = tuple(replace(b, offset=0) for b in plan.buffers)
    steps = tuple(replace(step, workload="", node="") for step in plan.steps)
    programs = tuple(built.programs[s.workload] for s in calls(plan))
    bare = replace(plan, buffers=buffers, steps=steps, arena_bytes=0, weights_bytes=0)
    return Parts(bare, programs, tuple(built.graph.tensors.values()))


def _built(sample: BuiltModel, parts: Parts) -> BuiltModel:
    workloads: dict[str, Workload] = {}
    programs: dict[str, Program] = {}
    packable: list[str] = []
    keys = []
    # Equal programs of the sample stay equal: each is looked at once.
    known: dict[str, str] = {}
    for step, program in zip(calls(sample.plan), parts.programs, strict=True):
        if step.workload not in known:
            workload = workload_for(program, subject_of(program))
            known[step.workload] = workload.key
            if workload.key not in workloads:
                workloads[workload.key], programs[workload.key] = replace(workload, uses=0), program
                if step.workload in sample.packable:
                    packable.append(workload.key)
        key = known[step.workload]
        workloads[key] = replace(workloads[key], uses=workloads[key].uses + 1)
        keys.append(key)
    given = iter(keys)
    steps = tuple(
        replace(step, workload=next(given)) if step.op == "call" else step
        for step in sample.plan.steps
    )
    plan = placed(replace(parts.plan, steps=steps))
    nodes = tuple(
        replace(node, workload=key, flops=workloads[key].flops)
        for node, key in zip(sample.graph.nodes, keys, strict=True)
    )
    tensors = dict(zip(sample.graph.tensors, parts.tensors, strict=True))
    graph = replace(sample.graph, nodes=nodes, tensors=tensors)
    return BuiltModel(graph, tuple(workloads.values()), plan, programs, tuple(packable))
