"""A verdict in words: figures with fitting units, one headline, a table for a terminal."""

from __future__ import annotations

from nnjit_studio.records.estimate import RATIO_CONFIDENCE
from nnjit_studio.support.tables import text_table
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.peers import HOW_TO_GET, PACKAGE
from nnjit_studio.verdict.result import LABELS, LEAST_RATE, Row, Verdict

COLUMNS = ("", "time", "memory", "cold start", "shipped code", "largest error")


def milliseconds(ms: float, digits: int = 3) -> str:
    """With so many digits; microseconds below a tenth."""
    value, unit = (ms * 1e3, "µs") if ms < 0.1 else (ms, "ms")
    return f"{_digits(value, digits)} {unit}"


def exponent(value: float, digits: int = 0) -> str:
    """A power of ten with so many digits behind the point of its factor, such as 4.0e-4."""
    return f"{value:.{digits}e}".replace("e-0", "e-")


def _digits(value: float, digits: int) -> str:
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e" in text else text


def _seconds(ms: float, rough: bool) -> str:
    """A time that was taken once: two digits on a busy machine."""
    return f"{_digits(ms / 1e3, 2)} s" if rough else f"{ms / 1e3:.2f} s"


def memory(mib: float) -> str:
    """With three digits; kibibytes below one mebibyte."""
    return f"{_digits(mib, 3)} MiB" if mib >= 1 else f"{_digits(1024 * mib, 3)} KiB"


def timing(ms: Interval, rough: bool = False) -> str:
    """The median and its interval, in one unit."""
    digits = 2 if rough else 3
    scale = 1e3 if ms.median < 0.1 else 1.0
    ends = "..".join(_digits(end * scale, digits) for end in (ms.low, ms.high))
    return f"{milliseconds(ms.median, digits)} [{ends}]"


def large(ms: Interval, rough: bool = False) -> tuple[str, str]:
    """The median for a large figure, and the interval for the words after it."""
    median, _, ends = timing(ms, rough).partition(" [")
    return median, f"[{ends}"


def times(ratio: Interval) -> str:
    return f"{ratio.median:.2f}x [{ratio.low:.2f}..{ratio.high:.2f}]"


def kilobytes(nbytes: int) -> str:
    return f"{nbytes / 1e6:.1f} MB" if nbytes >= 1e6 else f"{nbytes / 1e3:.0f} KB"


def cells(row: Row, rough: bool = False) -> tuple[str, ...]:
    """What :data:`COLUMNS` show of a row; empty where nothing is known."""
    return (
        row.label,
        timing(row.ms, rough) if row.ms else row.problem,
        "" if row.memory_mib is None else memory(row.memory_mib),
        "" if row.cold_ms is None else _seconds(row.cold_ms, rough),
        "" if row.shipped_bytes is None else memory(row.shipped_bytes / 2**20),
        "" if row.max_rel_err is None else exponent(row.max_rel_err),
    )


def figure(verdict: Verdict) -> tuple[str, str]:
    """The one large figure, empty where none may be stated, and the words after it."""
    peer, ratio, ours = LABELS["ort"], verdict.ratio, verdict.ours
    own = ours.ms if ours else None
    match verdict.state:
        case "measuring":
            return (f"{ratio.median:.1f}x", "so far") if ratio else ("", "Measuring")
        case "no peer":
            return large(own, verdict.busy) if own else ("", f"{peer} is not installed")
        case "refused":
            return "", "Not compared: refused" if not own else "Runs in ours alone"
        case "peer alone":
            assert verdict.peer and verdict.peer.ms
            return milliseconds(verdict.peer.ms.median, 2 if verdict.busy else 3), ""
        case "different":
            return "", "The outputs differ"
        case "busy" | "few pairs":
            return "", f"About {timing(own, rough=True)}" if own else "Unknown"
        case "not told apart":
            return "", "Not told apart"
    assert ratio is not None
    return f"{ratio.median:.{1 if verdict.busy else 2}f}x", f"as fast as {peer}"


def headline(verdict: Verdict) -> str:
    """The most that may be said in a few words."""
    return " ".join(part for part in figure(verdict) if part)


def explanation(verdict: Verdict) -> str:
    """One or two sentences on the headline."""
    ours, ratio = verdict.ours, verdict.ratio
    own = timing(ours.ms, verdict.busy) if ours and ours.ms else ""
    pairs = f"{RATIO_CONFIDENCE:.1%} interval of {verdict.pairs} pairs"
    rough = f"Machine busy, at {verdict.rate:.0%} of its usual rate: figures are rough."
    gain = f", {times(verdict.gain)} of untuned" if verdict.gain else ""
    match verdict.state:
        case "measuring":
            done = f"{verdict.pairs} of {verdict.wanted} pairs" if verdict.pairs else verdict.phase
            return f"{own}, {done}" if own else done[:1].upper() + done[1:]
        case "no peer":
            return f"{PACKAGE} is not installed. {HOW_TO_GET}"
        case "peer alone":
            assert verdict.peer and verdict.peer.ms
            return (
                f"{timing(verdict.peer.ms, verdict.busy)} in {LABELS['ort']}; ours does not run it."
            )
        case "refused":
            return next((row.problem for row in verdict.rows if row.problem), "No samples.")
        case "different":
            return "So far apart, two times cannot be compared."
        case "few pairs":
            few = "Too few pairs for a ratio: measure longer."
            return f"{few} {rough}" if verdict.busy else few
        case "busy":
            return f"{rough} Below {LEAST_RATE:.0%} no ratio is told."
        case "not told apart":
            return f"from {LABELS['ort']}: {times(ratio)}, {pairs}" if ratio else pairs
    assert ratio is not None
    ends = f"ratio [{ratio.low:.2f}..{ratio.high:.2f}]"
    return f"{rough} {own}, {ends}" if verdict.busy else f"{own}, {ends}, {pairs}{gain}"


def table(verdict: Verdict) -> str:
    """Everything, for a terminal or a plain text file."""
    rows = text_table(COLUMNS, (cells(row, verdict.busy) for row in verdict.rows))
    absent = ["", f"Ours is absent: {verdict.absent}"] if verdict.absent else []
    return "\n".join([headline(verdict), explanation(verdict), "", rows, *absent])
