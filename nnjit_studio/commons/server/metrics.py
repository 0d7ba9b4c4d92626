"""What Prometheus may ask: counts and durations, nothing of any one device."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reports = Counter(
            "nnjit_reports",
            "Reports by what became of them.",
            ("outcome",),
            registry=self.registry,
        )
        self.answers = Counter(
            "nnjit_answers", "Answers by where they came from.", ("origin",), registry=self.registry
        )
        self.report_seconds = Histogram(
            "nnjit_report_seconds",
            "Seconds from a whole report to its commit.",
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2),
            registry=self.registry,
        )

    def text(self) -> bytes:
        """In Prometheus' text form."""
        return generate_latest(self.registry)
