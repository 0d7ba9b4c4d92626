"""Two bundles of one model: time in turns, size by part, difference of outputs."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from nnjit_studio.bundle.sizes import MB, growth, sizes
from nnjit_studio.doctor.deployment.drivers import open_page
from nnjit_studio.doctor.deployment.server import serving
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.errors import UserError
from nnjit_studio.records.estimate import Estimate, Ratio


@dataclass(frozen=True)
class Limits:
    """What the second bundle may be worse by; None for no limit."""

    slower: float | None = None
    """Ratio of times, such as 1.05; exceeded where its whole interval lies above."""
    growth_mb: float | None = None
    error: float | None = None
    """Relative to the largest value of an output of the first bundle."""


@dataclass(frozen=True)
class Versions:
    """The bundles A and B compared."""

    a: Estimate
    """Milliseconds of a run."""
    b: Estimate
    ratio: Ratio
    """Time of B over that of A, over pairs of runs."""
    a_bytes: int
    b_bytes: int
    growth: Mapping[str, int]
    """Bytes by part that B has more, the largest change first."""
    error: float
    """Largest difference of an output over its largest value in A."""
    where: str

    def to_json(self) -> dict[str, Any]:
        return {
            "a_ms": self.a.ms,
            "b_ms": self.b.ms,
            "time": self.ratio.to_json(),
            "a_bytes": self.a_bytes,
            "b_bytes": self.b_bytes,
            "growth": dict(self.growth),
            "error": self.error,
            "where": self.where,
        }


def compare_versions(
    a: Path, b: Path, browser: Browser, seconds: float = 5.0, threads: int = 1
) -> Versions:
    """Run two bundles in turns in one page of a browser on this machine.

    Raises
    ------
    BundleError
        When one is none, or damaged.
    UserError
        When they take different inputs or give other outputs, or a browser cannot run them.
    """
    a_parts, b_parts = sizes(a), sizes(b)
    with tempfile.TemporaryDirectory(prefix="nnjit-compare-") as folder:
        for name, bundle in (("a", a), ("b", b)):
            with zipfile.ZipFile(bundle) as archive:
                archive.extractall(Path(folder) / name)
        script = (files("nnjit_studio.resources") / "check" / "versions.js").read_text("utf-8")
        with (
            serving(Path(folder)) as url,
            open_page(browser, f"{url}a/index.html#check") as evaluate,
        ):
            given = {"a": f"{url}a/manifest.json", "b": f"{url}b/manifest.json"}
            call = {**given, "seconds": seconds, "threads": threads, "seed": 1}
            found = evaluate(f"({script.strip().rstrip(';')})({json.dumps(call)})")
    if "problem" in found:
        raise UserError(found["problem"], "Compare two bundles of one model.")
    return Versions(
        Estimate.of(found["a_ms"]),
        Estimate.of(found["b_ms"]),
        Ratio.of(found["b_ms"], found["a_ms"]),
        a.stat().st_size,
        b.stat().st_size,
        growth(a_parts, b_parts),
        found["error"],
        f"{browser.name}, {found['tier']}, {found['threads']} thread(s)",
    )


def text(found: Versions) -> str:
    """A few lines for a terminal."""
    a, b, ratio = found.a, found.b, found.ratio
    lines = [
        f"time   A {a.ms:.3g} ms ({a.low:.3g} to {a.high:.3g}), "
        f"B {b.ms:.3g} ms ({b.low:.3g} to {b.high:.3g})",
        f"       B / A {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
        if ratio.known
        else "       too few pairs for a ratio: give more --seconds",
        f"size   A {found.a_bytes / MB:.3f} MB, B {found.b_bytes / MB:.3f} MB",
        *(f"       {part} {change:+,} bytes" for part, change in found.growth.items()),
        f"error  {found.error:.2g} of the largest value",
        f"where  {found.where}",
    ]
    return "\n".join(lines)


def exceeded(found: Versions, limits: Limits) -> list[str]:
    """One sentence for each limit that the second bundle exceeds."""
    said, ratio = [], found.ratio
    if limits.slower is not None and not ratio.known:
        said.append("Too few pairs were measured to say whether it is slower.")
    elif limits.slower is not None and ratio.low > limits.slower:
        said.append(
            f"It takes {ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f}) times the time; "
            f"{limits.slower:g} is allowed."
        )
    more = (found.b_bytes - found.a_bytes) / MB
    if limits.growth_mb is not None and more > limits.growth_mb:
        part = next((p for p, change in found.growth.items() if change > 0), "")
        most = f"; most of it are the {part}" if part else ""
        said.append(f"It is {more:.2f} MB larger; {limits.growth_mb:g} MB are allowed{most}.")
    if limits.error is not None and found.error > limits.error:
        said.append(f"Its outputs differ by {found.error:.2g}; {limits.error:g} is allowed.")
    return said
