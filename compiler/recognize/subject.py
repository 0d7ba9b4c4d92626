"""What a schedule template can work on in a program, and the workload that it stands for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.attention import attention_workload, recognize_attention
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.conv2d import Conv2d, recognize_conv2d, with_staging
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.quantised import (
    Quantised,
    recognize_quantised,
    without_vectors,
)
from nnjit_studio.compiler.recognize.winograd import winograd_labels
from nnjit_studio.compiler.recognize.workload import workload_of
from nnjit_studio.model import Workload
from nnjit_studio.records.quantised import QUANTISED_KINDS
from nnjit_studio.space.wasm.conv2d import CONV2D
from nnjit_studio.space.wasm.dot import DOT_KINDS

Subject = Contraction | Conv2d | Quantised


@dataclass(frozen=True)
class PackedWeight:
    """A weight that kernels may want in panels: ``k`` rows of ``n`` words of 32 bits."""

    buffer: str
    k: int
    n: int


def packed_weight(subject: Subject | None) -> PackedWeight | None:
    """The packable weight of a subject, if it has one."""
    if isinstance(subject, Quantised):
        return PackedWeight(subject.contraction.b.buffer, subject.words, subject.contraction.n)
    if isinstance(subject, Contraction) and subject.packable:
        return PackedWeight(subject.b.buffer, subject.k, subject.b.row)
    return None


def subject_of(program: Program) -> Subject | None:
    """The matmul, of floats or of quantised weights, or the convolution in a program.

    A convolution that is a plain matmul (1x1, stride 1, no padding) counts as
    one; so does any other contraction whose B has neighbouring columns or can
    be packed.
    """
    contraction = recognize(program)
    if contraction is not None and contraction.has_columns:
        return contraction
    return recognize_conv2d(program) or contraction or recognize_quantised(program)


def prepared(program: Program) -> Program:
    """The program in the form that its template reads, with the workspace that it needs."""
    if subject_of(program) is None:
        simple = without_vectors(program)
        program = program if subject_of(simple) is None else simple
    contraction = recognize(program)
    if contraction is not None and contraction.has_columns:
        return program
    return with_staging(program)


def workload_for(program: Program, subject: Subject | None) -> Workload:
    """Name, dims and FLOPs of a program; uses are counted by the caller."""
    if isinstance(subject, Quantised):
        workload = workload_of(program, subject.contraction)
        tunable = not subject.contraction.batch
        return replace(workload, kind=QUANTISED_KINDS[subject.per_word], tunable=tunable)
    if not isinstance(subject, Conv2d):
        attention = recognize_attention(program) if subject is None else None
        if attention is not None:
            return attention_workload(program, attention)
        workload = workload_of(program, subject)
        if subject is None:
            return replace(workload, epilogue=winograd_labels(program))
        # Lite spaces are of float32 results, and the matmul templates read no other B.
        along_k, is_float = subject.along_k, workload.dtype == "f32"
        kind = DOT_KINDS[workload.kind] if along_k else workload.kind
        return replace(workload, kind=kind, tunable=is_float and (along_k or subject.has_columns))
    return replace(
        workload_of(program, None),
        kind=CONV2D,
        dims=subject.dims,
        epilogue=subject.labels,
        flops=subject.flops,
        tunable=True,
    )
