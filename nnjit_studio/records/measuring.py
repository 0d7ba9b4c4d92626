"""Measurements of kernels in the page: what is asked for, and the answers."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MeasurePolicy:
    """How samples are taken (design section 6).

    A sample is a batch of runs that lasts at least ``min_sample_ms`` and
    ``min_quanta`` quanta of the page's timer. Challenger and incumbent are
    interleaved ABBA, ``pairs`` samples each. With ``digest`` the result says
    what the outputs were, bit by bit.
    """

    pairs: int = 6
    min_sample_ms: float = 5.0
    min_quanta: int = 20
    warmup_ms: float = 30.0
    early_stop_ratio: float = 3.0
    max_ms: float = 4000.0
    digest: bool = False


@dataclass(frozen=True)
class RunResult:
    """The page's measurements of a challenger and of the incumbent."""

    workload: str
    settings: str
    tier: str
    samples_ms: tuple[float, ...] = ()
    """Milliseconds of one run of the challenger, one entry a sample, in order of time."""
    incumbent_ms: tuple[float, ...] = ()
    """The same of the incumbent."""
    batch: int = 0
    error_ratio: float = float("inf")
    """Largest ``|got - expected| / bound`` over all outputs: at most 1 is right. NaN counts as
    infinite unless the reference is NaN there."""
    guard_ok: bool = False
    """False when the kernel wrote outside its outputs and workspaces."""
    stopped_early: bool = False
    instantiate_ms: float = 0.0
    digest: str = ""
    """SHA-256 of all outputs, empty unless the policy asked for it."""
    error: str = ""
    """Empty, or why there are no samples."""
    gpu_clock: str = ""
    """Of a GPU kernel: ``timestamp`` or ``wall``, by which it was timed."""
    pipeline_ms: float = 0.0
    """Of a GPU kernel: what the implementation took to compile its WGSL."""
    late_ms: float = 0.0
    """Of a GPU kernel: waiting after the GPU had finished."""
    total_ms: float = 0.0
    """Of a GPU kernel: the whole measurement."""

    def with_more(self, more: RunResult) -> RunResult:
        """The samples of both, in order of time."""
        return replace(
            more,
            samples_ms=self.samples_ms + more.samples_ms,
            incumbent_ms=self.incumbent_ms + more.incumbent_ms,
            instantiate_ms=self.instantiate_ms,
            pipeline_ms=self.pipeline_ms,
            late_ms=self.late_ms + more.late_ms,
            total_ms=self.total_ms + more.total_ms,
        )


@dataclass(frozen=True)
class Trial:
    """Kernels tried in the running plan, in turns with those that it has.

    Entry i of each list is one sample: milliseconds of one run, entry i of two lists one pair.
    """

    mode: str = ""
    """``runs``: the whole model ran. ``windows``: steps behind their real predecessors."""
    rounds: int = 0
    """Runs of a sample."""
    ms: tuple[float, ...] = ()
    """Of the steps whose kernels differ, or in windows of some of them: with the new kernels."""
    without_ms: tuple[float, ...] = ()
    runs_ms: tuple[float, ...] = ()
    """Of the whole model with the new kernels; empty in windows."""
    runs_without_ms: tuple[float, ...] = ()
    error: str = ""
    """Empty, or why there are no samples."""


@dataclass(frozen=True)
class RateItem:
    """A kernel ``run(begin, end)`` to be timed."""

    kernel: int
    """Index among the modules sent."""
    extent: int = 0
    """Iterations of a call; 0 for as many as are timed well."""
    threads: int = 1
    """1, or as many as every other item with threads."""
    chain_bytes: int = 0
    """Length of the closed walk of addresses that it follows, 0 for none."""


@dataclass(frozen=True)
class RateRequest:
    """Kernels timed side by side, round by round, on one zeroed memory."""

    items: tuple[RateItem, ...]
    memory_bytes: int = 1 << 16
    rounds: int = 5
    sample_ms: float = 2.0
    warmup_ms: float = 30.0


@dataclass(frozen=True)
class Pulse:
    """One look at a fixed kernel and at what surrounds the page.

    ``gflops`` is the peak kernel's on one thread, the median of a few samples, and
    ``throughput`` that of all of them with what interrupted them, 0 where the page does not tell;
    ``on_battery`` is None where the browser does not tell.
    """

    gflops: float
    hidden: bool = False
    on_battery: bool | None = None
    throughput: float = 0.0
