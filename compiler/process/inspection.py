"""A kernel after each named pass, as text: what the kernel inspector shows."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Callable, Collection
from functools import partial

from nnjit_studio.compiler.ir.program_text import program_text
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import PASSES, compile_program
from nnjit_studio.compiler.pipeline.wgsl import WGSL_PASSES, compile_wgsl
from nnjit_studio.compiler.process.results import KernelTexts, PassText
from nnjit_studio.compiler.wasm.context import STORAGE_BYTES
from nnjit_studio.errors import CompileError
from nnjit_studio.records import GPU_TIERS, Kernel
from nnjit_studio.records.gpu_candidate import AnyCandidate, GpuCandidate

FORMS = {
    "schedule": "loops", "encode": "bytes",
    "prepare": "stages", "group": "dispatches", "template": "wgsl", "emit": "wgsl",
}  # fmt: skip
"""What the text after a pass is, by the pass's name; ``wasm`` for all others."""
BYTES_A_LINE = 16


def in_tier(
    program: Program, candidate: AnyCandidate | None, tier: str, passes: Collection[str]
) -> Callable[[str | None], Artifact]:
    """The compiler of a kernel in a tier: a function of the pass whose text is wanted, if any.

    Raises
    ------
    CompileError
        When the settings are of another backend than the tier.
    """
    if tier in GPU_TIERS:
        return partial(compile_wgsl, program, candidate, tier)
    if isinstance(candidate, GpuCandidate):
        raise CompileError(
            f"{candidate} are settings of a WGSL kernel, not of {tier}.",
            f"Choose one of the tiers {', '.join(GPU_TIERS)}.",
        )
    return partial(compile_program, program, candidate, tier, passes)


def kernel_texts(
    workload: str,
    program: Program,
    candidate: AnyCandidate | None,
    tier: str,
    passes: Collection[str],
) -> KernelTexts:
    """Compile a kernel once for each pass, and keep the text after that one.

    Equal arguments give equal bytes, so these are the stages of one kernel.

    Raises
    ------
    CompileError
        When the candidate does not compile in this tier.
    """
    compiled = in_tier(program, candidate, tier, passes)
    compiled(None)  # the first one reads the program; its time says nothing
    names = WGSL_PASSES if tier in GPU_TIERS else PASSES
    artifacts = [compiled(name) for name in names]
    texts = []
    form = text = ""
    for name, artifact in zip(names, artifacts, strict=True):
        if artifact.dump != text:
            text, form = artifact.dump, FORMS.get(name, "wasm")
        ms = statistics.median(a.pass_ms[name] for a in artifacts)
        shown = _rows(artifact.data) if form == "bytes" else text
        texts.append(PassText(name, form, shown, ms))
    last = artifacts[-1]
    digest = hashlib.sha256(last.data).hexdigest()
    kernel = Kernel(workload, candidate, tier, last.data, digest, last.panels, last.parallel_extent)
    moved = sum(
        math.prod(b.shape) * STORAGE_BYTES[b.dtype]
        for b in program.buffers
        if b.role != "workspace"
    )
    buffers = tuple(b.name for b in program.buffers)
    return KernelTexts(program_text(program), buffers, moved, tuple(texts), kernel)


def _rows(data: bytes) -> str:
    """Bytes as people read them: an address, sixteen of them in hexadecimal, what is printable."""
    rows = []
    for at in range(0, len(data), BYTES_A_LINE):
        part = data[at : at + BYTES_A_LINE]
        seen = "".join(chr(b) if 32 <= b < 127 else "." for b in part)
        rows.append(f"{at:06x}  {part.hex(' '):<{3 * BYTES_A_LINE}} {seen}")
    return "\n".join(rows) + "\n"
