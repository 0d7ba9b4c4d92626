"""The WGSL compiler from end to end: the one list of passes, in order and by name."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.passes import Artifact, Passes, check_name, run_passes
from nnjit_studio.compiler.templates import match
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument
from nnjit_studio.compiler.wgsl.core.emit import emit_group
from nnjit_studio.compiler.wgsl.core.groups import Group, Held, groups_of
from nnjit_studio.compiler.wgsl.core.points import Buffers
from nnjit_studio.compiler.wgsl.core.prepare import SCRATCH, Prepared, prepare
from nnjit_studio.compiler.wgsl.core.text import group_text, prepared_text
from nnjit_studio.errors import CompileError
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate

SUBGROUPS = "wgsl-subgroups"
"""The tier whose kernels may use subgroup operations."""


@dataclass
class _State:
    """What the passes hand on."""

    program: Program
    candidate: AnyCandidate | None
    tier: str
    document: KernelDocument | None = None
    prepared: Prepared | None = None
    groups: list[Group] = field(default_factory=list)
    data: bytes = b""
    held: Held | None = None

    def text(self) -> str:
        if self.data:
            return self.data.decode() + "\n"
        if self.document is not None:
            return document_text(self.document)
        if self.groups:
            return "\n".join(group_text(group) for group in self.groups)
        return "" if self.prepared is None else prepared_text(self.prepared)


def _template(state: _State) -> None:
    state.document = from_template(state.program, state.candidate, state.tier)


def from_template(
    program: Program, candidate: AnyCandidate | None, tier: str
) -> KernelDocument | None:
    """A program's document by its template; without a candidate by the first guess.

    None where there is no candidate, and no template that takes the program.

    Raises
    ------
    CompileError
        When the candidate does not apply.
    """
    found = match(program)
    form = found.template.wgsl if found is not None else None
    made = None
    if candidate is None:
        # What has no place in a tile, such as results that share words, runs anyway.
        with contextlib.suppress(CompileError):
            if found is not None and form is not None:
                made = form.document(program, found.subject, form.guess(found.subject), tier)
        return made
    if found is not None and not isinstance(candidate, GpuCandidate):
        raise CompileError(
            f"{candidate} is a candidate of Wasm kernels.", "A GPU candidate has the key split."
        )
    if found is not None and form is not None and isinstance(candidate, GpuCandidate):
        made = form.document(program, found.subject, candidate, tier)
    if made is None:
        raise CompileError(
            f"No template of {tier} takes candidates for {program.name}.",
            "Use the default schedule.",
        )
    return made


def _prepare(state: _State) -> None:
    if state.document is None:
        state.program.check_stored()
        state.prepared = prepare(state.program, state.held.rows if state.held else None)


def _group(state: _State) -> None:
    if state.prepared is not None:
        state.groups = groups_of(state.prepared.program, state.prepared.plain, state.held)


def _emit(state: _State) -> None:
    if state.prepared is None:
        return
    found, program = state.prepared, state.prepared.program
    dispatches: list[Dispatch] = []
    uses_subgroups = False
    for number, group in enumerate(state.groups):
        later = state.groups[number + 1 :]
        needed = {load.buffer for g in later for nest in g.nests for load in nest.reads}
        dispatch, with_subgroups = emit_group(
            Buffers(program, found.names, found.plain),
            group,
            needed,
            state.tier == SUBGROUPS,
            state.held is not None,
        )
        dispatches.append(dispatch)
        uses_subgroups = uses_subgroups or with_subgroups
    scratch = tuple(4 * math.prod(b.shape) for b in program.buffers if b.role == SCRATCH)
    requires = ("subgroups",) if uses_subgroups else ()
    state.document = KernelDocument(tuple(dispatches), scratch, requires)


def _encode(state: _State) -> None:
    assert state.document is not None
    state.data = state.document.to_bytes()


def held_schedule(program: Program, other: Program, tier: str) -> Held:
    """What the default schedule of a program keeps when its sizes change.

    Parameters
    ----------
    other
        The same program at other sizes: rows that are longer there are no rows.
    """
    first, second = (_State(p, None, tier) for p in (program, other))
    for state in (first, second):
        _prepare(state)
        _group(state)
    common = set.intersection(*({r for g in s.groups for r in g.local} for s in (first, second)))
    return Held(tuple(first.groups), frozenset(name for name, _ in common))


def held_document(program: Program, tier: str, held: Held) -> KernelDocument:
    """The document of a program by a schedule that holds at any sizes; its grids are not folded.

    Raises
    ------
    CompileError
        When the program has no such schedule.
    """
    state = _State(program, None, tier, held=held)
    for run in (_prepare, _group, _emit):
        run(state)
    assert state.document is not None
    return state.document


def document_text(document: KernelDocument) -> str:
    """A document as people read it."""
    lines = [f"scratch {list(document.scratch)} bytes, requires {list(document.requires)}"]
    for number, dispatch in enumerate(document.dispatches):
        bound = ", ".join(
            f"{name} {access}"
            for name, access in zip(dispatch.bindings, dispatch.access, strict=True)
        )
        lines += [f"// dispatch {number}: {dispatch.workgroups}, {bound}", dispatch.code]
    return "\n".join(lines) + "\n"


def pass_list() -> Passes[_State]:
    """All passes of the WGSL compiler, in order."""
    return (
        ("template", _template),
        ("prepare", _prepare),
        ("group", _group),
        ("emit", _emit),
        ("encode", _encode),
    )


WGSL_PASSES = tuple(name for name, _ in pass_list())


def compile_wgsl(
    program: Program, candidate: AnyCandidate | None, tier: str, dump_after: str | None = None
) -> Artifact:
    """Compile one kernel to its document; equal arguments give equal bytes.

    Parameters
    ----------
    candidate
        Settings of the template; None takes its first guess, or the default schedule.
    tier
        One of ``GPU_TIERS``.
    dump_after
        Name of the pass after which to keep the text form.

    Raises
    ------
    CompileError
        When the candidate does not apply, or a pass, tier, dtype or operation has no kernel.
    """
    check_name(dump_after, WGSL_PASSES)
    if tier not in GPU_TIERS:
        raise CompileError(f"There is no GPU tier {tier}.", f"They are {', '.join(GPU_TIERS)}.")
    state = _State(program, candidate, tier)
    pass_ms, dump = run_passes(pass_list(), state, dump_after)
    return Artifact(state.data, (), 1, pass_ms, dump)
