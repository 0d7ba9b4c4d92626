"""Warnings: what makes a function slow to compile, slow to run, or refused.

The limits of V8 are those of its ``wasm-limits.h``; the other thresholds are set so
that on ONNX Runtime Web 1.30 they name the functions that take V8's optimising
compiler a second and more, or spill in their innermost loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio.foreign_wasm.inspection.facts import V8_LOCALS, FunctionFacts
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.wasm_file.flow import V8_VECTORS

V8_BODY_BYTES = 7_654_321
V8_JUMPS = 65_520
LARGE_BYTES = 100_000
MANY_LOCALS = 1_000
LONG_JUMPS = 1_024
BITS = 1 << 28
"""Of a set with a bit for each value and block, as register allocators kept them."""

REFUSED = ("body-refused", "locals-refused", "jumps-refused")
"""Rules whose functions no module may have that V8 is to load."""


@dataclass(frozen=True)
class Finding:
    """One finding: the function's index, the rule's name, and a sentence."""

    function: int
    rule: str
    text: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


Rule = Callable[[FunctionFacts], "str | None"]


def _unknown(f: FunctionFacts) -> str | None:
    return f.problem or None


def _body_refused(f: FunctionFacts) -> str | None:
    if f.bytes <= V8_BODY_BYTES:
        return None
    return f"V8 refuses the module: the body has {f.bytes:,} bytes, the limit is {V8_BODY_BYTES:,}."


def _locals_refused(f: FunctionFacts) -> str | None:
    if f.locals <= V8_LOCALS:
        return None
    return f"V8 refuses the module: it has {f.locals:,} locals, the limit is {V8_LOCALS:,}."


def _jumps_refused(f: FunctionFacts) -> str | None:
    if f.jump_table <= V8_JUMPS:
        return None
    return (
        f"V8 refuses the module: a br_table has {f.jump_table:,} targets, "
        f"the limit is {V8_JUMPS:,}."
    )


def _large(f: FunctionFacts) -> str | None:
    if not LARGE_BYTES < f.bytes <= V8_BODY_BYTES:
        return None
    return (
        f"The body has {f.bytes / 1024:,.0f} KiB: one thread compiles it, "
        "and its code stays slow until that has ended."
    )


def _blocks(f: FunctionFacts) -> str | None:
    bits = f.blocks * f.instructions
    if bits < BITS:
        return None
    return (
        f"{f.blocks:,} blocks and about {f.instructions:,} values: a register allocator that keeps "
        f"a bit for each value and block takes {bits / 8e6:,.0f} MB, and time to match."
    )


def _locals(f: FunctionFacts) -> str | None:
    if not MANY_LOCALS < f.locals <= V8_LOCALS:
        return None
    return f"It has {f.locals:,} locals: each is carried through every block and loop."


def _jumps(f: FunctionFacts) -> str | None:
    if not LONG_JUMPS < f.jump_table <= V8_JUMPS:
        return None
    return f"A br_table has {f.jump_table:,} targets: each is an edge that compilers walk over."


def _spills(f: FunctionFacts) -> str | None:
    if not f.spills:
        return None
    verb = "spills" if f.spills == 1 else "spill"
    return (
        f"{V8_VECTORS + f.spills} vectors that an innermost loop changes live at once; V8 on "
        f"x64 has {V8_VECTORS} registers for them, so {f.spills} {verb} to memory."
    )


RULES: dict[str, Rule] = {
    "not-understood": _unknown,
    "body-refused": _body_refused,
    "locals-refused": _locals_refused,
    "jumps-refused": _jumps_refused,
    "large-body": _large,
    "blocks-by-values": _blocks,
    "many-locals": _locals,
    "long-jump-table": _jumps,
    "vector-spills": _spills,
}


def warnings(functions: Iterable[FunctionFacts]) -> Iterator[Finding]:
    """All findings, function by function."""
    for function in functions:
        for name, rule in RULES.items():
            if text := rule(function):
                yield Finding(function.index, name, text)


def ranked(survey: Survey) -> list[Finding]:
    """The findings of a file: refusals first, then those of large functions."""
    sizes = {f.index: f.bytes for f in survey.functions}
    found = warnings(survey.functions)
    return sorted(found, key=lambda w: (w.rule not in REFUSED, -sizes[w.function], w.rule))
