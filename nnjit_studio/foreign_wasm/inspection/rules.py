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
from nnjit_studio.wasm_file.flow.vectors import V8_VECTORS

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


def _spilled(f: FunctionFacts) -> str:
    verb = "spills" if f.spills == 1 else "spill"
    return (
        f"{V8_VECTORS + f.spills} vectors that an innermost loop changes live at once; V8 on "
        f"x64 has {V8_VECTORS} registers for them, so {f.spills} {verb} to memory."
    )


Rule = tuple[str, Callable[[FunctionFacts], bool], Callable[[FunctionFacts], str]]
"""In the fewest words; whether it says something of a function, and what."""

RULES: dict[str, Rule] = {
    "not-understood": ("not understood", lambda f: bool(f.problem), lambda f: f.problem),
    "body-refused": (
        "refused: too large",
        lambda f: f.bytes > V8_BODY_BYTES,
        lambda f: (
            f"V8 refuses the module: the body has {f.bytes:,} bytes, "
            f"the limit is {V8_BODY_BYTES:,}."
        ),
    ),
    "locals-refused": (
        "refused: locals",
        lambda f: f.locals > V8_LOCALS,
        lambda f: f"V8 refuses the module: it has {f.locals:,} locals, the limit is {V8_LOCALS:,}.",
    ),
    "jumps-refused": (
        "refused: jump table",
        lambda f: f.jump_table > V8_JUMPS,
        lambda f: (
            f"V8 refuses the module: a br_table has {f.jump_table:,} targets, "
            f"the limit is {V8_JUMPS:,}."
        ),
    ),
    "large-body": (
        "large body",
        lambda f: LARGE_BYTES < f.bytes <= V8_BODY_BYTES,
        lambda f: (
            f"The body has {f.bytes / 1024:,.0f} KiB: one thread compiles it, "
            "and its code stays slow until that has ended."
        ),
    ),
    "blocks-by-values": (
        "slow to compile",
        lambda f: f.blocks * f.instructions >= BITS,
        lambda f: (
            f"{f.blocks:,} blocks and about {f.instructions:,} values: a register allocator "
            "that keeps a bit for each value and block takes "
            f"{f.blocks * f.instructions / 8e6:,.0f} MB, and time to match."
        ),
    ),
    "many-locals": (
        "many locals",
        lambda f: MANY_LOCALS < f.locals <= V8_LOCALS,
        lambda f: f"It has {f.locals:,} locals: each is carried through every block and loop.",
    ),
    "long-jump-table": (
        "long jump table",
        lambda f: LONG_JUMPS < f.jump_table <= V8_JUMPS,
        lambda f: (
            f"A br_table has {f.jump_table:,} targets: each is an edge that compilers walk over."
        ),
    ),
    "vector-spills": ("spills", lambda f: f.spills > 0, _spilled),
}


def warnings(functions: Iterable[FunctionFacts]) -> Iterator[Finding]:
    """All findings, function by function."""
    for function in functions:
        for name, (_, holds, text) in RULES.items():
            if holds(function):
                yield Finding(function.index, name, text(function))


def ranked(survey: Survey) -> list[Finding]:
    """The findings of a file: refusals first, then those of large functions."""
    sizes = {f.index: f.bytes for f in survey.functions}
    found = warnings(survey.functions)
    return sorted(found, key=lambda w: (w.rule not in REFUSED, -sizes[w.function], w.rule))
