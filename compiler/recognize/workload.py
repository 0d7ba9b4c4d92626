"""The workload that a program stands for: its name, dims, fingerprint and FLOPs."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

from nnjit_studio.compiler.ir.tensor_ir import Binary, Call, Cast, Expr, Program, Select, stores_in
from nnjit_studio.compiler.recognize.subject import Subject
from nnjit_studio.compiler.recognize.winograd import winograd_labels
from nnjit_studio.model import Workload


def workload_for(program: Program, subject: Subject | None) -> Workload:
    """The workload of a program in which this was found; uses are counted by the caller."""
    anonymous = replace(program, name="", stages=tuple(replace(s, name="") for s in program.stages))
    fingerprint = hashlib.sha256(repr(anonymous).encode()).hexdigest()[:12]
    output = next(b for b in program.buffers if b.role == "output")
    if subject is not None:
        return Workload(
            subject.kind,
            subject.dims,
            output.dtype,
            subject.labels,
            fingerprint,
            flops=subject.flops,
            tunable=subject.tunable(output.dtype),
        )
    dims = tuple(d for d in output.shape if d != 1) or (1,)
    labels = winograd_labels(program)
    return Workload(program.name, dims, output.dtype, labels, fingerprint, flops=_flops(program))


def _flops(program: Program) -> int:
    """Arithmetic on values, one for each operation and point."""

    def count(expr: Expr) -> int:
        if isinstance(expr, Binary):
            return 1 + count(expr.a) + count(expr.b)
        if isinstance(expr, Call):
            return 1 + sum(count(a) for a in expr.args)
        if isinstance(expr, Select):
            return 1 + count(expr.condition) + count(expr.then) + count(expr.otherwise)
        if isinstance(expr, Cast):
            return count(expr.value)
        return 0

    return sum(
        math.prod(a.extent for a in stage.axes)
        * sum(count(s.value) for s in (*stage.body, *stores_in(stage.steps)))
        for stage in program.stages
    )
