"""The Wasm compiler from end to end: the one list of passes, in order and by name."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nnjit_studio.compiler.ir.dtypes import BYTES
from nnjit_studio.compiler.ir.loop_text import schedule_text
from nnjit_studio.compiler.ir.loops import Scheduled
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.passes import Artifact, Passes, check_name, run_passes
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.convolution import Conv2d
from nnjit_studio.compiler.templates import WITHOUT_SETTINGS, match
from nnjit_studio.compiler.wasm.combined_instruction import combined_instruction
from nnjit_studio.compiler.wasm.encode import encode_module
from nnjit_studio.compiler.wasm.fuse_multiply_add import fuse_multiply_add
from nnjit_studio.compiler.wasm.hoist_constants import hoist_constants
from nnjit_studio.compiler.wasm.ir import Function
from nnjit_studio.compiler.wasm.load_store_to_variable import load_store_to_variable
from nnjit_studio.compiler.wasm.lower import lower, lower_in_each_tier
from nnjit_studio.compiler.wasm.offset_load_store import offset_load_store
from nnjit_studio.compiler.wasm.text import function_text
from nnjit_studio.errors import CompileError
from nnjit_studio.records import TIERS
from nnjit_studio.records.candidate import Candidate

OPTIONAL_PASSES = ("offset_load_store", "combined_instruction", "load_store_to_variable")


@dataclass
class _State:
    """What the passes hand on; loops that are there already are kept."""

    program: Program
    candidate: Candidate | None
    tier: str
    scheduled: Scheduled | None
    function: Function = field(default_factory=lambda: Function([]))
    data: bytes = b""

    def text(self) -> str:
        if self.data:
            return " ".join(f"{byte:02x}" for byte in self.data) + "\n"
        if self.function.params:
            return function_text(self.function)
        return schedule_text(self.loops)

    @property
    def loops(self) -> Scheduled:
        assert self.scheduled is not None
        return self.scheduled


def _schedule(state: _State) -> None:
    if state.scheduled is None:
        state.scheduled = schedule_program(state.program, state.candidate, state.tier)


def schedule_program(
    program: Program, candidate: Candidate | None, tier: str, any_size: bool = False
) -> Scheduled:
    """The loops of a kernel in a tier, by its template; without a candidate by the first guess.

    Parameters
    ----------
    any_size
        Whether its sizes are one sample of many.

    Raises
    ------
    CompileError
        When the candidate does not apply.
    """
    found = match(program)
    form = found.template.wasm if found else None
    subject = found.subject if found else None
    if any_size:
        subject = _opened(subject, candidate)
    if candidate is None:
        guess = form.guess(subject) if form else None
        # What a template refuses, such as an output that cannot hold a sum, runs anyway.
        with contextlib.suppress(CompileError):
            if form and guess:
                return form.schedule_in(tier)(program, subject, guess)
        program.check_stored()
        made = (schedule(program) for schedule in WITHOUT_SETTINGS)
        return next(scheduled for scheduled in made if scheduled is not None)
    if form is None:
        raise CompileError(
            f"{program.name} is not a matmul or a convolution, so no candidate applies.",
            "Use the default schedule.",
        )
    return form.schedule_in(tier)(program, subject, candidate)


def _opened(subject: Any, candidate: Candidate | None) -> Any:
    """The subject as one sample of many; a convolution's map is, where it has a candidate."""
    if isinstance(subject, Contraction) or (isinstance(subject, Conv2d) and candidate is not None):
        return replace(subject, open=True)
    return subject


def _lower(state: _State) -> None:
    state.function = lower(state.program, state.loops, state.tier)


def _fuse(state: _State) -> None:
    if state.tier == "relaxed-simd":
        fuse_multiply_add(state.function)


def _hoist(state: _State) -> None:
    buffers = state.program.buffers
    of_bytes = any(b.dtype in BYTES and not b.constant for b in buffers)
    hoist_constants(state.function, of_bytes)


def _encode(state: _State) -> None:
    state.data = encode_module(state.function)


def loops_of(program: Program, candidate: Candidate | None = None) -> tuple[Scheduled, ...]:
    """The loops of a kernel for any size in each tier, by its first guess without a candidate.

    Raises
    ------
    CompileError
        When the candidate does not apply.
    """
    found = match(program)
    # The schedule asks for the tier only where a template has another one for it.
    apart = found and found.template.wasm and found.template.wasm.relaxed
    tiers = TIERS if apart else TIERS[:1]
    made = [schedule_program(program, candidate, tier, any_size=True) for tier in tiers]
    return tuple(made) if apart else (made[0],) * len(TIERS)


def lowered(
    program: Program, loops: Sequence[Scheduled], keep_loops: bool = False
) -> tuple[Function, ...]:
    """A kernel as Wasm IR in each tier by its loops there, which may run no time at all; for
    :func:`encoded`, when its sizes have become parameters."""
    functions = lower_in_each_tier(program, loops, keep_loops)
    for tier, function in zip(TIERS, functions, strict=True):
        _fuse(_State(program, None, tier, None, function))
    return tuple(functions)


def encoded(function: Function, program: Program, tier: str) -> bytes:
    """The bytes of a function that :func:`lowered` made."""
    state = _State(program, None, tier, None, function)
    for name, run in pass_list():
        if name not in ("schedule", "lower", "fuse_multiply_add"):
            run(state)
    return state.data


def pass_list() -> Passes[_State]:
    """All passes of the Wasm compiler, in order."""
    return (
        ("schedule", _schedule),
        ("lower", _lower),
        ("fuse_multiply_add", _fuse),
        ("hoist_constants", _hoist),
        ("offset_load_store", lambda state: offset_load_store(state.function)),
        ("combined_instruction", lambda state: combined_instruction(state.function)),
        ("load_store_to_variable", lambda state: load_store_to_variable(state.function)),
        ("encode", _encode),
    )


PASSES = tuple(name for name, _ in pass_list())


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
    for name in sorted(set(passes)):
        check_name(name, OPTIONAL_PASSES)
    check_name(dump_after, PASSES)
    if tier not in TIERS:
        raise CompileError(f"There is no tier {tier}.", f"The tiers are {', '.join(TIERS)}.")
    state = _State(program, candidate, tier, scheduled)
    left_out = set(OPTIONAL_PASSES) - set(passes)
    pass_ms, dump = run_passes(pass_list(), state, dump_after, left_out)
    return Artifact(state.data, state.loops.panels, state.loops.parallel_extent, pass_ms, dump)
