"""Numbers as text: one spelling everywhere, units in the headers."""

from __future__ import annotations

import math

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


def short_key(key: str) -> str:
    """A workload key without its fingerprint."""
    return key.split("#", 1)[0]
