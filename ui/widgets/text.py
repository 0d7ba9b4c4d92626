"""Numbers as text: one spelling everywhere, units in the headers."""

from __future__ import annotations

import math

from nnjit_studio.model.readable import words_of
from nnjit_studio.records.estimate import Estimate

NONE = "–"  # noqa: RUF001 (an en dash reads as "no value")


def known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def fixed(value: float | None, digits: int) -> str:
    """A fixed number of decimals, so that columns align; a dash for no value."""
    return f"{value:,.{digits}f}" if known(value) else NONE


def count(value: float) -> str:
    """``7``, ``12,345`` or ``1.2e9``."""
    if value < 1e6:
        return f"{value:,.0f}"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def latency(ms: float | None) -> str:
    """Milliseconds with three significant digits, without the unit."""
    if ms is None or not math.isfinite(ms):
        return NONE
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def digits3(value: float | None) -> str:
    """Three significant digits, no exponent below a million; a dash for no value."""
    if value is None or not math.isfinite(value):
        return NONE
    size = abs(value)
    if size >= 1e6:
        return count(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{places}f}"


def time(ms: float | None) -> str:
    """A time of three digits with the unit that fits: ``42.0 µs``, ``3.05 ms``, ``1.20 s``."""
    if ms is None or not math.isfinite(ms):
        return NONE
    if 0 < abs(ms) < 0.1:
        return f"{digits3(1000 * ms)} µs"
    return f"{digits3(ms / 1000)} s" if abs(ms) >= 10_000 else f"{latency(ms)} ms"


def counted(n: int, what: str) -> str:
    """``1 node`` or ``6 nodes``."""
    return f"{n} {what}{'s' * (n != 1)}"


def nodes(n: int) -> str:
    """Nodes, :func:`counted`."""
    return counted(n, "node")


def estimate(found: Estimate) -> str:
    """``59.6 ms, 58.9 to 60.4 ms``: the median and its interval, each in a unit that fits."""
    ends = "" if found.low == found.high else f", {time(found.low)} to {time(found.high)}"
    return f"{time(found.ms)}{ends}"


def elapsed(seconds: float) -> str:
    """``0:07`` or ``12:03``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02d}"


def nbytes(value: float) -> str:
    """Bytes in binary units: ``87.1 MiB``."""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.2f} GiB"


def shape(dims: tuple[int, ...]) -> str:
    return "x".join(map(str, dims)) or "scalar"


def workload(key: str) -> str:
    """A workload in words: ``Conv 3x3 24->48, 208x208, stride 2, +SiLU``."""
    return str(words_of(key))


def workload_tip(key: str) -> str:
    """Its words and its key, for a tooltip."""
    return f"{workload(key)}\n{short_key(key)}" if key else ""


def short_key(key: str) -> str:
    """A workload key without its fingerprint."""
    return key.split("#", 1)[0]
