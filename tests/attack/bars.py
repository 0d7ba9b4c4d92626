"""The 25 bars of reliability, and what measures each: a campaign, tests, or another program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import on_files
import on_hub
import on_kernels
import on_storage
import programs
from outcomes import Campaign, Outcome


@dataclass(frozen=True)
class Attack:
    """A campaign: ``full`` attacks are the bar's size, ``short`` those of the test suite."""

    make: Callable[[Campaign], Outcome]
    full: int
    short: int
    unit: str
    share: float
    """Of the time budget."""
    adds: bool = True
    """Whether runs with different seeds make different attacks, so that they add up."""
    judge: Callable[[Mapping[str, int], int], bool] | None = None
    """Of the sums over all runs, where the bar is a share; else each run has to hold."""


@dataclass(frozen=True)
class Bar:
    """``tests`` are run by pytest where there is no campaign; ``missing`` says why nothing measures
    it."""

    number: int
    text: str
    attack: str = ""
    tests: str = ""
    missing: str = ""


PROGRAMS = {
    "wrong kernels": Attack(programs.wrong_kernels, 2_500, 0, "mutants", 0.2, adds=False),
    "same kernels": Attack(
        programs.same_kernels, 1_000, 0, "duels", 0.2, judge=programs.rarely_false
    ),
    "swaps": Attack(programs.swaps, 10_000, 0, "swaps", 0.2, adds=False),
    "long run": Attack(programs.long_run, 1_440, 0, "minutes", 1.0, adds=False),
    "losses": Attack(programs.losses, 100, 0, "losses each", 0.2),
    "starts": Attack(programs.starts, 200, 0, "starts", 0.5),
    "window": Attack(programs.window, 1, 0, "session", 0.05, adds=False),
    "cold start": Attack(programs.cold_start, 5, 0, "starts", 0.05, adds=False),
}
"""With browsers and windows, minutes to hours each: run where `--only` names them."""
ATTACKS = {
    "models": Attack(on_files.models, 10_200, 60, "files", 0.30),
    "hostile models": Attack(on_files.hostile_models, 9, 9, "files", 0.05, adds=False),
    "bundles": Attack(on_files.bundles, 10_000, 200, "flipped bits", 0.10),
    "databases": Attack(on_files.databases, 1_000, 30, "files", 0.05),
    "kills": Attack(on_storage.kills, 1_000, 3, "kills", 0.30),
    "faults": Attack(on_storage.faults, 500, 5, "failing writes", 0.13),
    "frames": Attack(on_hub.frames, 1_000_000, 20_000, "frames", 0.05),
    "handshakes": Attack(on_hub.handshakes, 1_440, 150, "combinations", 0.01, adds=False),
    "too fast": Attack(on_kernels.too_fast, 200, 40, "kernels", 0.01),
    "connections": Attack(on_hub.connections, 1_500, 200, "connections", 0.01, adds=False),
}

BARS = (
    Bar(1, "malformed models: no death, none over 10 s, each with a sentence", "models"),
    Bar(2, "importer's ceiling: max(1 GiB, 4 x file), 60 s without progress", "hostile models"),
    Bar(3, "no external data or zip entry leaves its folder",
        tests="tests/compiler/importer/test_importer_check.py tests/bundle/test_bundle.py "
        "tests/attack/test_tampered_bundles.py"),
    Bar(4, "bundles: every flipped bit is found", "bundles"),
    Bar(5, "wrong kernels that escape: at most 0.2 %; right ones refused: none", "wrong kernels"),
    Bar(6, "skipped or too fast kernels accepted: 0 of 200", "too fast"),
    Bar(7, "next measurement after a kernel that never returns: 2 s",
        tests="tests/end2end/test_chromium.py"),
    Bar(8, "device lost 100 times in the page and through the bridge: all made good", "losses"),
    Bar(9, "crashed renderer: page back in 1 s, one candidate lost at most",
        tests="tests/engine/test_recovery.py tests/end2end/test_chromium.py"),
    Bar(10, "10,000 hot swaps: at most 32 MiB more", "swaps"),
    Bar(11, "24 h soak: at most 1 MiB/h after an hour, every exception caught", "long run"),
    Bar(12, "kill -9: whole, nothing acknowledged lost", "kills"),
    Bar(13, "n-th write fails: no crash, nothing torn", "faults"),
    Bar(14, "two Studios: no corruption, the second one does not write",
        tests="tests/attack/test_hostile_databases.py tests/database/test_database.py"),
    Bar(15, "200 starts and stops: exit code 0, no orphan", "starts"),
    Bar(16, "no packet off loopback", tests="tests/end2end/machine/test_no_lookups.py"),
    Bar(17, "no listening TCP socket by default", missing="partly: none before a page is asked "
        "for (tests/engine/test_hub_limits.py); the window asks for its page at its start"),
    Bar(18, "Host x Origin x token: none wrongly accepted", "handshakes"),
    Bar(19, "pairing: 256 bits, 120 s, 5 tries, one device a code; no person with a phone is timed",
        tests="tests/engine/test_pairing.py tests/engine/test_pairing_door.py"),
    Bar(20, "1,000,000 frames: no crash, at most 20 MiB more", "frames"),
    Bar(21, "30 % liars, Sybils: no attacked device slower than its default, mean regret 5 %",
        tests="tests/commons/test_simulation.py tests/commons/test_rule.py"),
    Bar(22, "A/A false improvements: at most 1 %", "same kernels"),
    Bar(23, "window while tuning: p99 33 ms, 150 ms at most, 20 pictures a second", "window"),
    Bar(24, "window in 3 s, 90 MB of model drawn in 5 s, first tuned kernel in 60 s", "cold start"),
    Bar(25, "what is said of the sandbox is true", tests="tests/end2end/machine/"
        "test_doctor_truth.py tests/engine/test_sandbox.py"),
)  # fmt: skip
