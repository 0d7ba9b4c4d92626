"""A report: which kernel, on which kind of device, with which settings, in how many milliseconds.

There is no field for code, weights, data, or the name of a model, a person or a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

FORMAT = 1
TOP = 5
"""Settings of one finding at most: the paper's top N."""
MOST_FINDINGS = 64
"""Findings of one report at most."""


@dataclass(frozen=True, order=True)
class Place:
    """The key: the paper's (t, s, rho, id), the device at two levels of identity.

    Attributes
    ----------
    kind, dims, dtype, layout
        The workload: its kind, sizes such as ``384x768x768``, type and layout with epilogue.
    primitives
        The vector of primitives that are fixed on this device.
    family
        What devices of like hardware share, such as ``cpu-16v-l1.32k-l2.512k``.
    device
        16 hexadecimal digits, equal for equal processor, core count and system; nothing in it
        tells one machine from another of the same make.
    engine, version
        The browser's engine and its major version.
    tier
        The instruction set, such as ``relaxed-simd``.
    threads
        How many ran the kernel.
    compiler
        Version of the compiler that the settings were given to.
    """

    kind: str
    dims: str
    dtype: str
    layout: str
    primitives: str
    family: str
    device: str
    engine: str
    version: int
    tier: str
    threads: int
    compiler: str

    @property
    def workload(self) -> tuple[str, str, str, str]:
        return self.kind, self.dims, self.dtype, self.layout


HOME = ("primitives", "family", "device", "engine", "version", "tier", "threads", "compiler")
"""The fields of a key that a device asks with: its kind, and no kernel."""


@dataclass(frozen=True)
class Timing:
    """One kernel's time: settings as a candidate spells them (or ``default``), median and interval.

    Times are in milliseconds; ``samples`` is how many runs they are from. A candidate's time is the
    default's, divided by the speed-up over it that was measured in turns.
    """

    settings: str
    ms: float
    low_ms: float
    high_ms: float
    samples: int


@dataclass(frozen=True)
class Finding:
    """What a device found out of one kernel: its default, and up to :data:`TOP` fastest settings.

    ``best`` is ordered, the fastest first.
    """

    place: Place
    default: Timing
    best: tuple[Timing, ...]


@dataclass(frozen=True)
class Report:
    """What one device sends at once.

    Attributes
    ----------
    server
        The address that it is for, so that no other server can be given it.
    number
        Counts a device's reports to that server from 1, so that none counts twice.
    created
        Seconds since 1970, UTC.
    """

    format: int
    server: str
    number: int
    created: int
    findings: tuple[Finding, ...]
