"""The list of devices: columns and their words."""

from __future__ import annotations

import datetime
from typing import Any

from nnjit_studio.ui.widgets.tables import Column
from nnjit_studio.workbench.house import LEAST_BATTERY, GuestRow

TONES = {"tuning": "tuned", "here": "good", "screen off": "warn", "away": "muted"}
WARM = 0.92
"""Share of the usual rate below which a device counts as warm, on its own page too."""


def _text(form: str) -> Any:
    return lambda value: "" if value is None else format(value, form)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def seen_text(seen_s: float) -> str:
    """The day and minute of a visit."""
    return datetime.datetime.fromtimestamp(seen_s).strftime("%Y-%m-%d %H:%M")


def _battery_tone(guest: GuestRow) -> str:
    state = guest.row.state
    low = state.battery is not None and state.battery < LEAST_BATTERY and not state.charging
    return "bad" if low else ""


def _rate_tone(guest: GuestRow) -> str:
    rate = guest.told.rate if guest.told else None
    return "warn" if rate is not None and rate < WARM else ""


COLUMNS: tuple[Column, ...] = (
    Column("device", lambda g: g.device.name, width=150, tip="browser and system"),
    Column("now", lambda g: g.now, width=76, tone=lambda g: TONES[g.now]),
    Column(
        "GFLOP/s", lambda g: g.told.gflops or None if g.told else None, _text(".1f"), True,
        "of the best kernel so far, while it tunes", 70,
    ),
    Column(
        "speed now", lambda g: g.told.rate if g.told else None, _share, True,
        "what a sentinel kernel says is left of the first speed: less when the device is warm",
        80, _rate_tone,
    ),
    Column("battery", lambda g: g.row.state.battery, _share, True,
           "as far as its browser tells", 62, _battery_tone),
    Column("cores", lambda g: g.row.state.cores, _text("d"), True, width=54),
    Column("memory", lambda g: g.row.state.memory_gb, _text("g"), True,
           "GiB as its browser rounds them, 8 for more", 64),
    Column("minutes", lambda g: g.device.most_s / 60, _text("g"), True,
           "that it works at a time, at most", 66),
    Column("last seen", lambda g: g.seen_s, seen_text, width=124),
    Column("kernel", lambda g: g.told.kernel if g.told else "", width=220, middle=True),
    Column("address", lambda g: g.row.address, width=110),
)  # fmt: skip
