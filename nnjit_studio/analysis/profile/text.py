"""The profile as a table for people."""

from __future__ import annotations

from nnjit_studio.analysis.profile.findings import findings
from nnjit_studio.analysis.profile.records import ModelProfile, StepProfile
from nnjit_studio.support.tables import text_table

COLUMNS = (
    "step", "workload", "ms", "IQR", "share", "GFLOP/s", "GB/s", "F/B", "peak", "roof", "bound",
    "thr", "on",
)  # fmt: skip
TEXTS = (0, 1, 10, 12)


def as_text(profile: ModelProfile, top: int | None = None) -> str:
    """Head, cold start, the slowest steps first, and the findings in words."""
    warm = profile.warm
    rows = sorted(profile.steps, key=lambda s: -s.ms)
    shown = rows[:top]
    lines = [
        f"{profile.model}: {warm.median_ms:.3f} ms "
        f"(min {warm.min_ms:.3f}, IQR {warm.iqr_ms:.3f}, {warm.runs} runs), "
        f"{profile.target}, {profile.tier}, threads {profile.threads}",
        "cold: " + ", ".join(f"{k} {v:.0f} ms" for k, v in profile.cold_ms.items()),
        "",
        text_table(COLUMNS, map(_cells, shown), left=TEXTS),
    ]
    if len(rows) > len(shown):
        lines.append(f"... and {len(rows) - len(shown)} faster steps")
    return "\n".join([*lines, "", *findings(profile)])


def _cells(s: StepProfile) -> tuple[object, ...]:
    return (
        s.node[-34:], s.workload[:42], f"{s.ms:.4f}", f"{s.iqr_ms:.4f}", f"{s.share:.1%}",
        f"{s.gflops:.1f}", f"{s.gbytes_per_s:.1f}", f"{s.intensity:.1f}",
        _percent(s.percent_of_peak if s.flops else None), _percent(s.percent_of_roof),
        s.bound or "-", s.threads, s.device or "-",
    )  # fmt: skip


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}%"
