"""The Wasm compiler from end to end: the one list of passes, in order and by name."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.loop_text import schedule_text
from nnjit_studio.compiler.ir.loops import Scheduled
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.recognize.conv2d import Conv2d
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.recognize.softmax import recognize_softmax
from nnjit_studio.compiler.recognize.subject import Subject, subject_of
from nnjit_studio.compiler.schedule.conv2d import schedule_conv2d
from nnjit_studio.compiler.schedule.default import schedule_default
from nnjit_studio.compiler.schedule.first_guess import first_guess
from nnjit_studio.compiler.schedule.matmul import schedule_matmul
from nnjit_studio.compiler.schedule.matmul_4bit import schedule_4bit
from nnjit_studio.compiler.schedule.matmul_dot import schedule_dot
from nnjit_studio.compiler.schedule.matmul_int8 import schedule_int8
from nnjit_studio.compiler.schedule.softmax import schedule_softmax
from nnjit_studio.compiler.schedule.winograd import schedule_winograd
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.compiler.wasm.combined_instruction import combined_instruction
from nnjit_studio.compiler.wasm.encode import encode_module
from nnjit_studio.compiler.wasm.fuse_multiply_add import fuse_multiply_add
from nnjit_studio.compiler.wasm.hoist_constants import hoist_constants
from nnjit_studio.compiler.wasm.ir import Function
from nnjit_studio.compiler.wasm.load_store_to_variable import load_store_to_variable
from nnjit_studio.compiler.wasm.lower import lower
from nnjit_studio.compiler.wasm.offset_load_store import offset_load_store
from nnjit_studio.compiler.wasm.peak import peak_kernel
from nnjit_studio.compiler.wasm.text import function_text
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.records import TIERS

OPTIONAL_PASSES = ("offset_load_store", "combined_instruction", "load_store_to_variable")


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel.

    Attributes
    ----------
    data
        The Wasm module.
    panels
        ``(argument index, panel width)`` of every argument wanted in panels.
    parallel_extent
        Trip count of the outermost loop.
    pass_ms
        Milliseconds by name of pass.
    dump
        Text after the pass that was asked for, else empty.
    """

    data: bytes
    panels: tuple[tuple[int, int], ...]
    parallel_extent: int
    pass_ms: dict[str, float]
    dump: str = ""


_REMEMBERED = 256


@dataclass
class _State:
    """What the passes hand on."""

    program: Program
    candidate: Candidate | None
    tier: str
    scheduled: Scheduled = field(default_factory=lambda: Scheduled([], 1))
    function: Function = field(default_factory=lambda: Function([]))
    data: bytes = b""

    def text(self) -> str:
        if self.data:
            return " ".join(f"{byte:02x}" for byte in self.data) + "\n"
        if self.function.params:
            return function_text(self.function)
        return schedule_text(self.scheduled)


def _schedule(state: _State) -> None:
    subject = remembered_subject(state.program)
    if state.candidate is None:
        state.scheduled = _untuned(state.program, subject)
    elif subject is None:
        raise CompileError(
            f"{state.program.name} is not a matmul or a convolution, so no candidate applies.",
            "Use the default schedule.",
        )
    else:
        state.scheduled = _by_template(state.program, subject, state.candidate)


def _untuned(program: Program, subject: Subject | None) -> Scheduled:
    if subject is not None and (guess := first_guess(subject)) is not None:
        # What a template refuses, such as an output that cannot hold a sum, runs anyway.
        with contextlib.suppress(CompileError):
            return _by_template(program, subject, guess)
    if (end := schedule_winograd(program)) is not None:
        return end
    softmax = recognize_softmax(program)
    return schedule_softmax(softmax) if softmax else schedule_default(program)


def _by_template(program: Program, subject: Subject, candidate: Candidate) -> Scheduled:
    if isinstance(subject, Conv2d):
        return schedule_conv2d(program, subject, candidate)
    if isinstance(subject, Quantised):
        schedule = schedule_4bit if subject.block else schedule_int8
        return schedule(program, subject, candidate)
    if subject.along_k:
        return schedule_dot(program, subject, candidate)
    return schedule_matmul(program, subject, candidate)


_recent: dict[int, tuple[Program, Subject | None]] = {}


def remembered_subject(program: Program) -> Subject | None:
    """``subject_of``, remembered: many candidates of one program come in a row.

    By identity, because hashing a program costs as much as reading it; the
    entry keeps the program alive, so its identity stays its own.
    """
    found = _recent.get(id(program))
    if found is None:
        if len(_recent) >= _REMEMBERED:
            _recent.clear()
        found = _recent[id(program)] = program, subject_of(program)
    return found[1]


def _lower(state: _State) -> None:
    state.function = lower(state.program, state.scheduled, state.tier)


def _fuse(state: _State) -> None:
    if state.tier == "relaxed-simd":
        fuse_multiply_add(state.function)


def _encode(state: _State) -> None:
    state.data = encode_module(state.function)


def pass_list() -> tuple[tuple[str, Callable[[_State], None]], ...]:
    """All passes of the Wasm compiler, in order."""
    return (
        ("schedule", _schedule),
        ("lower", _lower),
        ("fuse_multiply_add", _fuse),
        ("hoist_constants", lambda state: hoist_constants(state.function)),
        ("offset_load_store", lambda state: offset_load_store(state.function)),
        ("combined_instruction", lambda state: combined_instruction(state.function)),
        ("load_store_to_variable", lambda state: load_store_to_variable(state.function)),
        ("encode", _encode),
    )


PASSES = tuple(name for name, _ in pass_list())


def schedule_program(program: Program, candidate: Candidate | None) -> Scheduled:
    """The loops of a kernel, by the first pass alone: ``scheduled`` of :func:`compile_program`."""
    state = _State(program, candidate, TIERS[0])
    _schedule(state)
    return state.scheduled


def compile_program(
    program: Program,
    candidate: Candidate | None,
    tier: str,
    passes: Collection[str] = OPTIONAL_PASSES,
    dump_after: str | None = None,
    scheduled: Scheduled | None = None,
) -> Artifact:
    """Compile one kernel; equal arguments give equal bytes.

    Parameters
    ----------
    candidate
        Settings of the template; None takes the default schedule.
    tier
        ``simd128`` or ``relaxed-simd``.
    passes
        Which of the optional passes run; the kernel is right without them.
    dump_after
        Name of the pass after which to keep the text form.
    scheduled
        Loops in place of those that the candidate's template makes.

    Raises
    ------
    CompileError
        When the candidate does not apply, or a pass, tier or dtype is unknown.
    """
    unknown = set(passes) - set(OPTIONAL_PASSES) or {dump_after} - {None, *PASSES}
    if unknown:
        raise CompileError(
            f"There is no pass {sorted(map(str, unknown))[0]} to choose.",
            f"The passes are {', '.join(PASSES)}.",
        )
    if tier not in TIERS:
        raise CompileError(f"There is no tier {tier}.", f"The tiers are {', '.join(TIERS)}.")
    state = _State(program, candidate, tier)
    pass_ms: dict[str, float] = {}
    dump = ""
    for name, run in pass_list():
        if name in OPTIONAL_PASSES and name not in passes:
            pass_ms[name] = 0.0
        else:
            start = time.perf_counter()
            if scheduled is not None and name == "schedule":
                state.scheduled = scheduled
            else:
                run(state)
            pass_ms[name] = (time.perf_counter() - start) * 1e3
        if name == dump_after:
            dump = state.text()
    scheduled = state.scheduled
    return Artifact(state.data, scheduled.panels, scheduled.parallel_extent, pass_ms, dump)


__all__ = [
    "COMPILER_VERSION",
    "OPTIONAL_PASSES",
    "PASSES",
    "Artifact",
    "compile_program",
    "pass_list",
    "peak_kernel",
    "schedule_program",
]
