"""The row of everything together: what each row gave alone need not add up."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.advice.apply import Apply
from nnjit_studio.advice.records import Row

NAME = "together"


def together(rows: Sequence[Row]) -> Row | None:
    """A row of all rows that are faster, keep the guard and are applied by options of Wasm.

    None where there are not two. Smaller inputs stay out: they are another task.
    """
    chosen = [
        row
        for row in rows
        if row.outcome == "faster"
        and not row.refusal
        and not (row.apply.recipe or row.apply.backend or row.apply.shapes)
    ]
    if len(chosen) < 2:
        return None
    applies = [row.apply for row in chosen]
    merged = Apply(
        half_weights=any(a.half_weights for a in applies),
        direct=any(a.direct for a in applies),
        ways={name: way for a in applies for name, way in a.ways.items()},
        threads=max(a.threads for a in applies),
        headers={name: value for a in applies for name, value in a.headers.items()},
    )
    title = "Together: " + ", ".join(row.name for row in chosen)
    return Row(NAME, title, merged, " ".join(row.asks for row in chosen if row.asks))
