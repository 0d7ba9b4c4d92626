"""The WGSL compiler from end to end: the one list of passes, in order and by name."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.wasm.pipeline import Artifact
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument
from nnjit_studio.compiler.wgsl.core.emit import emit_group
from nnjit_studio.compiler.wgsl.core.groups import Group, groups_of
from nnjit_studio.compiler.wgsl.core.points import Buffers
from nnjit_studio.compiler.wgsl.core.prepare import SCRATCH, Prepared, prepare
from nnjit_studio.compiler.wgsl.core.text import group_text, prepared_text
from nnjit_studio.compiler.wgsl.templates.attention import attention_template
from nnjit_studio.compiler.wgsl.templates.conv2d import conv2d_template
from nnjit_studio.compiler.wgsl.templates.matmul import matmul_template
from nnjit_studio.compiler.wgsl.templates.matmul_4bit import matmul_4bit_template
from nnjit_studio.compiler.wgsl.templates.matmul_int8 import matmul_int8_template
from nnjit_studio.errors import CompileError
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.gpu_candidate import AnyCandidate

SUBGROUPS = "wgsl-subgroups"
"""The tier whose kernels may use subgroup operations."""

Template = Callable[[Program, "AnyCandidate | None", str], "KernelDocument | None"]
"""A tuned schedule: the document of a program, candidate (None: its first guess) and tier.

None where the template has no use for the program. It raises
:class:`CompileError` where the program is its own but the candidate is not.
"""

TEMPLATES: tuple[Template, ...] = (
    matmul_template,
    matmul_4bit_template,
    matmul_int8_template,
    conv2d_template,
    attention_template,
)
"""Asked in order before the default schedule."""


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

    def text(self) -> str:
        if self.data:
            return self.data.decode() + "\n"
        if self.document is not None:
            return document_text(self.document)
        if self.groups:
            return "\n".join(group_text(group) for group in self.groups)
        return "" if self.prepared is None else prepared_text(self.prepared)


def _template(state: _State) -> None:
    for template in TEMPLATES:
        state.document = template(state.program, state.candidate, state.tier)
        if state.document is not None:
            return
    if state.candidate is not None:
        raise CompileError(
            f"No template of {state.tier} takes candidates for {state.program.name}.",
            "Use the default schedule.",
        )


def _prepare(state: _State) -> None:
    if state.document is None:
        state.prepared = prepare(state.program)


def _group(state: _State) -> None:
    if state.prepared is not None:
        state.groups = groups_of(state.prepared.program, state.prepared.plain)


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
            Buffers(program, found.names, found.plain), group, needed, state.tier == SUBGROUPS
        )
        dispatches.append(dispatch)
        uses_subgroups = uses_subgroups or with_subgroups
    scratch = tuple(4 * math.prod(b.shape) for b in program.buffers if b.role == SCRATCH)
    requires = ("subgroups",) if uses_subgroups else ()
    state.document = KernelDocument(tuple(dispatches), scratch, requires)


def _encode(state: _State) -> None:
    assert state.document is not None
    state.data = state.document.to_bytes()


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


def pass_list() -> tuple[tuple[str, Callable[[_State], None]], ...]:
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
    if dump_after not in (None, *WGSL_PASSES):
        raise CompileError(
            f"There is no pass {dump_after} to choose.", f"The passes are {', '.join(WGSL_PASSES)}."
        )
    if tier not in GPU_TIERS:
        raise CompileError(f"There is no GPU tier {tier}.", f"They are {', '.join(GPU_TIERS)}.")
    state = _State(program, candidate, tier)
    pass_ms: dict[str, float] = {}
    dump = ""
    for name, run in pass_list():
        start = time.perf_counter()
        run(state)
        pass_ms[name] = (time.perf_counter() - start) * 1e3
        if name == dump_after:
            dump = state.text()
    return Artifact(state.data, (), 1, pass_ms, dump)
