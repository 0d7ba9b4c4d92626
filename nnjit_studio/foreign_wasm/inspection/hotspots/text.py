"""Where the time went, for people."""

from __future__ import annotations

from nnjit_studio.foreign_wasm.inspection.hotspots.records import Hotspots
from nnjit_studio.support.tables import text_table

SAID = 5
COLUMNS = (
    *("index", "name", "self ms", "share", "total ms", "bytes", "loops", "live vectors", "spills"),
)


def as_text(found: Hotspots, top: int) -> str:
    """The parts, a table of functions, and the busiest in sentences."""
    if not found.busy_ms:
        return "The page did nothing while it was sampled."
    parts = ", ".join(f"{part} {ms / found.busy_ms:.0%}" for part, ms in found.parts_ms.items())
    threads = f"{found.threads} thread{'' if found.threads == 1 else 's'}"
    head = f"{found.browser}: {found.busy_ms / 1000:.2f} s of work on {threads}: {parts}."
    if not found.functions:
        return f"{head}\n\nNo Wasm function was seen running."
    rows = [
        (
            f.index,
            f.name,
            f"{f.self_ms:,.1f}",
            f"{f.share:.1%}",
            f"{f.total_ms:,.1f}",
            f"{f.facts.bytes:,}",
            f.facts.loops,
            f.facts.live_vectors,
            f.facts.spills or None,
        )
        for f in found.functions[:top]
    ]
    return "\n\n".join(
        (
            head,
            text_table(COLUMNS, rows, left=(1,)),
            "\n".join(f.text for f in found.functions[:SAID]),
        )
    )
