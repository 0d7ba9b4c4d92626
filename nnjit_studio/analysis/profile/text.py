"""The profile as a table for people."""

from __future__ import annotations

from nnjit_studio.analysis.profile.findings import findings
from nnjit_studio.analysis.profile.records import ModelProfile


def as_text(profile: ModelProfile, top: int | None = None) -> str:
    """Head, cold start, the slowest steps first, and the findings in words."""
    warm = profile.warm
    lines = [
        f"{profile.model}: {warm.median_ms:.3f} ms "
        f"(min {warm.min_ms:.3f}, IQR {warm.iqr_ms:.3f}, {warm.runs} runs), "
        f"{profile.target}, {profile.tier}, threads {profile.threads}",
        "cold: " + ", ".join(f"{k} {v:.0f} ms" for k, v in profile.cold_ms.items()),
        "",
        f"{'step':<34} {'workload':<42} {'ms':>8} {'IQR':>7} {'share':>6} {'GFLOP/s':>8} "
        f"{'GB/s':>6} {'F/B':>6} {'peak':>5} {'roof':>5} {'bound':<7} thr",
    ]
    rows = sorted(profile.steps, key=lambda s: -s.ms)
    for s in rows[:top]:
        lines.append(
            f"{s.node[-34:]:<34} {s.workload[:42]:<42} {s.ms:8.4f} {s.iqr_ms:7.4f} "
            f"{s.share:6.1%} {s.gflops:8.1f} {s.gbytes_per_s:6.1f} {s.intensity:6.1f} "
            f"{_percent(s.percent_of_peak if s.flops else None)} {_percent(s.percent_of_roof)} "
            f"{s.bound or '-':<7} {s.threads:>3}"
        )
    if len(rows) > len(rows[:top]):
        lines.append(f"... and {len(rows) - len(rows[:top])} faster steps")
    return "\n".join([*lines, "", *findings(profile)])


def _percent(value: float | None) -> str:
    return "    -" if value is None else f"{value:4.0f}%"
