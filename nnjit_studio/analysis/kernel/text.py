"""An inspection for a terminal and for scripts."""

from __future__ import annotations

from typing import Any

from nnjit_studio.analysis.kernel.changes import as_text
from nnjit_studio.analysis.kernel.kernel import KernelInspection, PassStep

CONTEXT = 2


def inspection_text(kernel: KernelInspection) -> str:
    """Tensor IR, numbers of the lite space, then what each pass changed."""
    lines = [kernel.program]
    if kernel.usage is not None:
        use = kernel.usage
        lines.append(
            f"{kernel.settings}: {use.registers} elements in registers, {use.l1_bytes:,} bytes "
            f"of {'workgroup memory' if kernel.on_gpu else 'L1'}, blocks a core: "
            f"{use.blocks_per_core}\n"
        )
    lines += [f"{'in ' if v.ok else 'OUT'}  {v.rule:<14} {v.text}\n" for v in kernel.verdicts]
    lines += [f"\n== {step.name}: {step.ms:.3f} ms\n{_changes(step)}" for step in kernel.passes]
    return "".join(lines)


def _changes(step: PassStep) -> str:
    if step.lines is None:
        return step.text
    return as_text(step.lines, CONTEXT) or "nothing changed\n"


def inspection_json(kernel: KernelInspection) -> dict[str, Any]:
    """The same as an object; ``changes`` of a pass is null where its text has a new form."""
    usage = kernel.usage
    return {
        "program": kernel.program,
        "in_space": kernel.in_space,
        "registers": usage.registers if usage else None,
        "l1_bytes": usage.l1_bytes if usage else None,
        "blocks_per_core": usage.blocks_per_core if usage else None,
        "rules": [{"rule": v.rule, "ok": v.ok, "text": v.text} for v in kernel.verdicts],
        "passes": [
            {
                "name": s.name,
                "ms": s.ms,
                "form": s.form,
                "added": s.added,
                "removed": s.removed,
                "changes": None if s.lines is None else as_text(s.lines, CONTEXT),
            }
            for s in kernel.passes
        ],
    }
