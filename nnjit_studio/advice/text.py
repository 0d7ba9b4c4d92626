"""Advice in words: a table for a terminal, and sentences for a row."""

from __future__ import annotations

from nnjit_studio.advice.records import (
    IMPOSSIBLE,
    KEPT,
    MEASURED,
    WAITING,
    Advice,
    Measurement,
    Row,
    is_safe,
    ranked,
)
from nnjit_studio.support.tables import text_table
from nnjit_studio.verdict.text import exponent, kilobytes, memory, milliseconds, times, timing

COLUMNS = (
    *("", "time", "untouched then", "gain", "memory", "download", "largest error", "cosine"),
    "",
)


def gain(row: Row) -> str:
    """The ratio with its interval, or why none is stated."""
    found = row.measured
    if found is None:
        return ""
    if found.stated is None:
        return "too few pairs" if found.ratio is None else "machine too busy"
    text = times(found.stated)
    return f"not told apart {text}" if found.stated.holds_1 else text


def mark(row: Row) -> str:
    """One or two words on whether it may be applied."""
    if row.state == IMPOSSIBLE:
        return "not here"
    if row.unknown:
        return "not measured"
    if row.refusal:
        return "REFUSED"
    return "asks" if row.asks else ""


def error(found: Measurement) -> str:
    return "" if found.max_error is None else exponent(found.max_error, 1)


def cells(row: Row) -> tuple[str, ...]:
    """What :data:`COLUMNS` show of a row; empty where nothing is known."""
    found = row.measured
    if found is None:
        return (row.name, *[""] * (len(COLUMNS) - 2), mark(row))
    return (row.name, *_figures(found, gain(row)), mark(row))


def _figures(found: Measurement, stated: str) -> tuple[str, ...]:
    return (
        timing(found.ms, found.busy),
        milliseconds(found.base_ms.median, 2) if stated else "",
        stated,
        memory(found.memory_mib),
        kilobytes(found.download_bytes) if found.download_bytes else "",
        error(found),
        "" if found.cosine is None else f"{found.cosine:.6f}",
    )


def sentences(row: Row) -> list[str]:
    """What a user should know of a row before it is applied."""
    said = [row.title + "."]
    if row.asks:
        said.append(f"Asks: {row.asks}")
    if row.note:
        said.append(row.note)
    if row.state == WAITING and row.unknown:
        said.append(row.refusal)
    if row.guard.state != KEPT and row.guard.reason:
        said.append(row.guard.reason)
    return said


def set_in_use(row: Row, advice: Advice) -> str:
    """What the rows in use are worth together, as one sentence; empty before a first sample."""
    found = row.measured
    if found is None:
        return f"They could not be measured together: {row.problem}" if row.problem else ""
    so_far = "" if row.state == MEASURED else " so far"
    if found.stated is None:  # two times in one line would be read as a ratio
        said = [f"Measured{so_far}: about {timing(found.ms, True)}; {gain(row)} to compare"]
    else:
        before = milliseconds(found.base_ms.median, 2 if found.busy else 3)
        said = [f"Measured{so_far}: {timing(found.ms, found.busy)} for {before}, {gain(row)}"]
    if found.max_error is not None:
        said.append(f"largest error {error(found)}")
    if found.memory_mib > 0:
        now = f"{found.memory_mib:.3g}"
        first = f"{advice.base.memory_mib:.3g}" if advice.base else ""
        before = " as before" if now == first else f", {first} before" if first else ""
        said.append(f"memory {now} MiB{before}")
    return "; ".join(said) + "."


def headline(advice: Advice) -> str:
    """The most that may be said in a few words."""
    if advice.phase:
        return advice.phase[:1].upper() + advice.phase[1:] + "."
    if not any(row.measured for row in advice.rows):
        return f"{advice.model}: no other form of it was measured."
    best = advice.best
    if best is None or best.measured is None or best.measured.stated is None:
        unknown = [row.measured for row in advice.rows if row.measured and not row.measured.stated]
        if any(found.ratio is not None for found in unknown):
            return "Machine too busy to tell what is faster: close other programs, then run again."
        if unknown:
            return "Too few pairs to tell what is faster: give each row more --seconds."
        return f"Nothing here makes {advice.model} faster without asking something of the page."
    text = times(best.measured.stated)
    return f"{best.title}: {text} of the untouched model, --apply {best.name}"


def so_far(advice: Advice) -> str:
    """The gain of the fastest row that the guard keeps, while others are measured; or empty."""
    kept = [row for row in advice.rows if row.outcome == "faster" and not row.refusal]
    found = [row.measured.stated.median for row in kept if row.measured and row.measured.stated]
    return f"Best so far {max(found):.2f}x. " if found else ""


def smallest(advice: Advice, titled: bool = False) -> str:
    """The row that saves most of the download within the error limit, as a sentence; empty without.

    ``titled`` has its title in place of the name that ``--apply`` takes.
    """
    if advice.base is None or not advice.base.download_bytes:
        return ""
    safe = [(r.measured.download_bytes, r) for r in advice.rows if r.measured and is_safe(r)]
    nbytes, row = min(safe, key=lambda found: found[0], default=(0, None))
    if row is None or nbytes > 0.98 * advice.base.download_bytes:
        return ""
    before = kilobytes(advice.base.download_bytes)
    what = row.title if titled else row.name
    return f"Smallest within the error limit: {what}, {kilobytes(nbytes)} for {before}."


def table(advice: Advice) -> str:
    """Everything, for a terminal or a plain text file."""
    lines = [text for text in (headline(advice), smallest(advice)) if text]
    if advice.base is not None:
        base = milliseconds(advice.base.ms.median)
        lines.append(
            f"Untouched {base} on {advice.threads} thread(s); errors are against "
            f"{advice.reference}, up to {advice.threshold:g} of the largest value is accepted."
        )
        rows = [("untouched", *_figures(advice.base, ""), "")]
        rows += [cells(row) for row in ranked(advice.rows) if row.state != IMPOSSIBLE]
        lines += ["", text_table(COLUMNS, rows, left=(0, len(COLUMNS) - 1))]
    here = [row for row in ranked(advice.rows) if row.state != IMPOSSIBLE]
    elsewhere = [row for row in ranked(advice.rows) if row.state == IMPOSSIBLE]
    lines += ["", *(f"{row.name}: {' '.join(sentences(row))}" for row in here)] if here else []
    lines += ["", "Not here:"] if elsewhere else []
    lines += [f"{row.name} ({row.title}): {row.problem}" for row in elsewhere]
    return "\n".join(lines)
