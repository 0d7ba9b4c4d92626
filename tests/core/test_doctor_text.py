"""What the doctor says of the device that sessions build on."""

from __future__ import annotations

from dataclasses import replace

from nnjit_studio.doctor import as_text, examine
from nnjit_studio.link.device import FROM_SYSTEM
from nnjit_studio.space.records import DeviceProfile

KNOWN = DeviceProfile(
    "a" * 16, "embedded", l1_bytes=49152, l2_bytes=1 << 21, sources={"l1_bytes": FROM_SYSTEM}
)


def test_every_limit_has_its_source() -> None:
    measured = replace(KNOWN, sources={**KNOWN.sources, "l2_bytes": "measured 2026-11-21"})
    lines = as_text(examine(lambda: measured, no_sandbox=True)).splitlines()
    (line,) = [line for line in lines if line.startswith("device ")]
    assert line.split(maxsplit=1)[1] == (
        "16 vector registers (assumed), L1 48 KiB (from the system), L2 2 MiB (measured 2026-11-21)"
    )
