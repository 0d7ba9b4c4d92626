"""Reports for tests."""

from __future__ import annotations

from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nnjit_studio.commons.report.document import Finding, Place, Report, Timing
from nnjit_studio.commons.report.signed import SignedReport
from nnjit_studio.commons.server.counting import Arrival
from nnjit_studio.commons.server.store import Store
from nnjit_studio.errors import CommonsError

SERVER = "http://127.0.0.1:8123"
NOW = 1_790_000_000
GOOD = "x0=8,y0=6,r0=4,x1=8,y1=6,r1=384,order=nm,pack=1"
OTHER = "x0=16,y0=4,r0=4,x1=16,y1=4,r1=768,order=nm,pack=1"
PLACE = Place(
    kind="matmul",
    dims="384x768x768",
    dtype="float32",
    layout="row-major+bias",
    primitives="cache_read=0,cache_write=1,unroll=1,vectorize=1",
    family="cpu-16v-l1.32k-l2.512k",
    device="0123456789abcdef",
    engine="chromium",
    version=156,
    tier="relaxed-simd",
    threads=1,
    compiler="1.2",
)


def key_of(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(seed.to_bytes(32, "big"))


def timing(settings: str, ms: float) -> Timing:
    return Timing(settings, ms, ms * 0.99, ms * 1.01, 20)


def finding(place: Place = PLACE, ms: float = 10.0) -> Finding:
    best = (timing(GOOD, ms), timing(OTHER, ms * 1.2))
    return Finding(place, timing("default", ms * 2), best)


def report(number: int = 1, ms: float = 10.0, **changes: object) -> Report:
    made = Report(1, SERVER, number, NOW, (finding(ms=ms),))
    return replace(made, **changes)  # type: ignore[arg-type]


def accept(store: Store, signed: SignedReport, source: str, now: int) -> bool:
    """Count one report; False where it was counted before."""
    (told,) = store.accept_all([Arrival(signed, source, now)])
    if isinstance(told, CommonsError):
        raise told
    return told
