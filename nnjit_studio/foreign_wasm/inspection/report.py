"""An inspected file as JSON, as CSV, and as text for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nnjit_studio.foreign_wasm.inspection.comparison import Comparison
from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts
from nnjit_studio.foreign_wasm.inspection.rules import Finding, ranked
from nnjit_studio.foreign_wasm.inspection.survey import Survey
from nnjit_studio.support.tables import csv_text, text_table

Tiers = Mapping[int, Mapping[str, Mapping[str, Any]]]
"""Of a function and a compiler tier: ``ms``, and ``bytes`` where the code's size is known."""

LARGEST = 20
LARGEST_NEW = 5
WORST = 20
COLUMNS = (
    *("index", "name", "bytes", "blocks", "locals", "loops", "simd", "live_vectors", "spills"),
    *("callers", "instructions", "jump_table"),
)


def as_json(
    survey: Survey, comparison: Comparison | None = None, tiers: Tiers | None = None
) -> dict[str, Any]:
    """The document that scripts read; ``tiers`` is empty where nothing was compiled."""
    document: dict[str, Any] = {
        "file": str(survey.path),
        "bytes": survey.nbytes,
        "sha256": survey.sha256,
        "imported": survey.imported,
        "sections": [{"name": name, "bytes": size} for name, size in sections(survey).items()],
        "functions": [
            {
                **row(survey, function),
                "callers": list(survey.callers.get(function.index, ())),
                "tiers": (tiers or {}).get(function.index, {}),
            }
            for function in survey.functions
        ],
        "warnings": [warning.to_json() for warning in ranked(survey)],
    }
    if comparison is not None:
        document["comparison"] = comparison.to_json()
    return document


def row(survey: Survey, function: FunctionFacts) -> dict[str, Any]:
    """A row of the table, by column; ``callers`` is their number."""
    here = {
        "name": survey.name(function.index),
        "callers": len(survey.callers.get(function.index, ())),
    }
    return {
        column: here[column] if column in here else getattr(function, column) for column in COLUMNS
    }


def sections(survey: Survey) -> dict[str, int]:
    """Bytes by section; sections of one name are added up."""
    sizes: Counter[str] = Counter()
    for section in survey.sections:
        name = section.name if section.id else f"custom {section.name!r}"
        sizes[name] += section.end - section.start
    return dict(sizes.most_common())


def as_csv(survey: Survey) -> str:
    """The table of functions, with a line of titles."""
    return csv_text(COLUMNS, (row(survey, function).values() for function in survey.functions))


def as_text(survey: Survey, comparison: Comparison | None = None) -> str:
    """A page for people: totals, the largest functions, warnings, the comparison."""
    return "\n\n".join(_parts(survey, comparison))


def headline(survey: Survey) -> str:
    """The file in one line."""
    loops = sum(f.loops for f in survey.functions)
    simd = sum(1 for f in survey.functions if f.simd)
    return (
        f"{survey.path.name}: {survey.nbytes:,} bytes, {len(survey.functions):,} functions, "
        f"{simd:,} with vectors, {loops:,} loops."
    )


def _parts(survey: Survey, comparison: Comparison | None) -> Iterator[str]:
    yield headline(survey)
    yield text_table(
        ("section", "bytes"), [(name, f"{size:,}") for name, size in sections(survey).items()]
    )
    largest = sorted(survey.functions, key=lambda f: -f.bytes)[:LARGEST]
    rows = [tuple(row(survey, f).values()) for f in largest]
    yield f"The largest of {len(survey.functions):,} functions (all with --json or --csv):"
    yield text_table([c.replace("_", " ") for c in COLUMNS], rows, left=(1,))
    yield _warnings(survey, ranked(survey))
    if comparison is not None:
        yield _comparison(comparison)


def _warnings(survey: Survey, found: Sequence[Finding]) -> str:
    if not found:
        return "No warnings."
    lines = [f"{len(found)} warnings, the {min(WORST, len(found))} most important:"]
    for warning in found[:WORST]:
        name = survey.name(warning.function)
        lines.append(
            f"  function {warning.function}{f' ({name})' if name else ''}, {warning.rule}: "
            f"{warning.text}"
        )
    return "\n".join(lines)


def _comparison(found: Comparison) -> str:
    """In words, and the functions that changed most."""
    growth = found.after.nbytes - found.before.nbytes
    said = (
        f"Compared with {found.before.path.name}: {growth:+,} bytes; {found.same:,} functions are "
        f"the same, {len(found.changed):,} changed, {len(found.added):,} are new, "
        f"{len(found.removed):,} are gone."
    )
    for functions, word in ((found.added, "new"), (found.removed, "gone")):
        largest = (f"{f.index} ({f.bytes:,} bytes)" for f in functions[:LARGEST_NEW])
        if functions:
            said += f" The largest that are {word}: {', '.join(largest)}."
    if not found.changed:
        return said
    rows = [
        (
            pair.after.index,
            found.after.name(pair.after.index),
            pair.by,
            f"{pair.before.bytes:,}",
            f"{pair.after.bytes:,}",
            f"{pair.growth:+,}",
        )
        for pair in found.changed[:LARGEST]
    ]
    columns = ("index", "name", "recognised by", "bytes before", "bytes", "difference")
    return f"{said}\n\n{text_table(columns, rows, left=(1, 2))}"
