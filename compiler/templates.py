"""The template table: one row for each way to make kernels of a kind of program.

A new template is a recogniser, a schedule or a WGSL document (each with its first guess), a row of
spaces, and a row here; whoever makes, tunes, names or benchmarks kernels reads the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nnjit_studio.compiler.ir.loops import Scheduled
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.programs.attention import ATTENTIONS
from nnjit_studio.compiler.programs.conv2d import CONVOLUTIONS
from nnjit_studio.compiler.programs.parts import Spelling
from nnjit_studio.compiler.programs.product import DOTS, PRODUCTS
from nnjit_studio.compiler.recognize.attention import recognize_attention
from nnjit_studio.compiler.recognize.conv2d import recognize_conv2d, with_staging
from nnjit_studio.compiler.recognize.depthwise_bytes import recognize_depthwise_bytes
from nnjit_studio.compiler.recognize.matmul import recognize, recognize_columns, recognize_dots
from nnjit_studio.compiler.recognize.quantised import (
    recognize_blocks,
    recognize_int8,
    without_vectors,
)
from nnjit_studio.compiler.recognize.subject import Subject, remembered
from nnjit_studio.compiler.schedule.attention import (
    guess_attention,
    schedule_attention,
    with_workspace,
)
from nnjit_studio.compiler.schedule.conv2d import guess_conv2d, schedule_conv2d
from nnjit_studio.compiler.schedule.decoded_panels import schedule_halves, with_panels
from nnjit_studio.compiler.schedule.default import schedule_default
from nnjit_studio.compiler.schedule.depthwise_bytes import (
    guess_depthwise_bytes,
    schedule_depthwise_bytes,
)
from nnjit_studio.compiler.schedule.matmul import guess_matmul, schedule_matmul
from nnjit_studio.compiler.schedule.matmul_blocks import guess_blocks, schedule_blocks
from nnjit_studio.compiler.schedule.matmul_dot import guess_dot, schedule_dot
from nnjit_studio.compiler.schedule.matmul_int8 import guess_int8, schedule_bytes, schedule_int8
from nnjit_studio.compiler.schedule.recurrent import schedule_recurrent
from nnjit_studio.compiler.schedule.softmax import schedule_softmax
from nnjit_studio.compiler.schedule.winograd import schedule_winograd
from nnjit_studio.compiler.wgsl.core.document import KernelDocument
from nnjit_studio.compiler.wgsl.templates import conv2d, matmul, matmul_blocks, matmul_int8
from nnjit_studio.compiler.wgsl.templates.attention import document as attention
from nnjit_studio.errors import CompileError
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space import registry
from nnjit_studio.space.registry import SpaceRow

Schedule = Callable[[Program, Any, Candidate], Scheduled]


@dataclass(frozen=True)
class Wasm:
    """A template of Wasm kernels."""

    schedule: Schedule
    """The loops of a program, its subject and a candidate; :class:`CompileError` where the
    candidate does not fit."""
    guess: Callable[[Any], Candidate | None] = lambda subject: None
    """Settings of a subject that suit most shapes, untuned; None where others are faster."""
    relaxed: Schedule | None = None
    """The loops in the relaxed tier, where they are others."""

    def schedule_in(self, tier: str) -> Schedule:
        """The schedule of a tier."""
        return self.relaxed if self.relaxed and tier == "relaxed-simd" else self.schedule


@dataclass(frozen=True)
class Wgsl:
    """A template of WGSL kernels."""

    document: Callable[[Program, Any, GpuCandidate, str], KernelDocument | None]
    """Of a program, its subject, a candidate and the tier; None where the program has a form
    that the template cannot read, :class:`CompileError` where the candidate does not fit."""
    guess: Callable[[Any], GpuCandidate]
    """As that of :class:`Wasm`."""


@dataclass(frozen=True)
class Template:
    """A row of the table."""

    name: str
    recognise: Callable[[Program], Subject | None]
    """The subject that all other columns are told of, where a program has one."""
    space: SpaceRow
    """The lite spaces of its workloads, and what the cost model sees of them."""
    wasm: Wasm | None = None
    wgsl: Wgsl | None = None
    spellings: tuple[Spelling, ...] = ()
    """How its workloads are written by hand."""
    prepare: Callable[[Program], Program] = lambda program: program
    """The program with the workspace that its kernels need."""


_MATMUL_ON_GPU = Wgsl(matmul.matmul_document, matmul.guess)

TEMPLATES = (
    Template(
        "matmul",
        recognize_columns,
        registry.MATMUL,
        Wasm(schedule_halves, guess_matmul),
        _MATMUL_ON_GPU,
        PRODUCTS,
        with_panels,
    ),
    Template(
        "conv2d",
        recognize_conv2d,
        registry.CONV2D,
        Wasm(schedule_conv2d, guess_conv2d),
        Wgsl(conv2d.conv2d_document, conv2d.guess),
        CONVOLUTIONS,
        with_staging,
    ),
    Template(
        "dot",
        recognize_dots,
        registry.DOT,
        Wasm(schedule_dot, guess_dot),
        _MATMUL_ON_GPU,
        DOTS,
        with_panels,
    ),
    # Any other strides: fast on a GPU alone.
    Template("strided", recognize, registry.MATMUL, Wasm(schedule_matmul), _MATMUL_ON_GPU),
    Template(
        "int8",
        recognize_int8,
        registry.INT8,
        Wasm(schedule_int8, guess_int8, schedule_bytes),
        Wgsl(matmul_int8.int8_document, matmul_int8.guess),
    ),
    Template(
        "depthwise_int8",
        recognize_depthwise_bytes,
        registry.DEPTHWISE_BYTES,
        Wasm(schedule_depthwise_bytes, guess_depthwise_bytes),
    ),
    Template(
        "4bit",
        recognize_blocks,
        registry.BLOCKS,
        Wasm(schedule_blocks, guess_blocks),
        Wgsl(matmul_blocks.block_document, matmul_blocks.guess),
        prepare=with_panels,
    ),
    Template(
        "attention",
        recognize_attention,
        registry.ATTENTION,
        Wasm(schedule_attention, guess_attention),
        Wgsl(attention.attention_document, attention.guess),
        ATTENTIONS,
        with_workspace,
    ),
)
"""In this order a program is offered to their recognisers; the first that takes it has it."""

WITHOUT_SETTINGS: tuple[Callable[[Program], Scheduled | None], ...] = (
    schedule_winograd,
    schedule_softmax,
    schedule_recurrent,
    schedule_default,
)
"""Wasm schedules of programs that no template takes, in the order in which they are asked."""


@dataclass(frozen=True)
class Match:
    """A program's row of the table, and what its recogniser found."""

    template: Template
    subject: Subject


@remembered
def match(program: Program) -> Match | None:
    """The template that a program has, if it has one."""
    for template in TEMPLATES:
        if (subject := template.recognise(program)) is not None:
            return Match(template, subject)
    return None


def subject_of(program: Program) -> Subject | None:
    """The part of a program that its template works on.

    A convolution that is a plain matmul (1x1, stride 1, no padding) counts as
    one; so does any other contraction whose B has neighbouring columns or can
    be packed.
    """
    found = match(program)
    return found.subject if found else None


def on_gpu(program: Program) -> bool:
    """Whether the GPU's template of a program, if it has one, makes a kernel with its guess."""
    found = match(program)
    if found is None or (form := found.template.wgsl) is None:
        return False
    try:
        guess = form.guess(found.subject)
        return form.document(program, found.subject, guess, GPU_TIERS[0]) is not None
    except CompileError:
        return False


def prepared(program: Program) -> Program:
    """The program in the form that its template reads, with the workspace that it needs."""
    if match(program) is None:
        simple = without_vectors(program)
        program = program if match(simple) is None else simple
    found = match(program)
    return found.template.prepare(program) if found else program
