"""Verdicts in every state, for tests of what is said of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from nnjit_studio.verdict.figures import Interval
from nnjit_studio.verdict.result import Row, Verdict

FASTER = Verdict(
    "minilm.onnx",
    "/models/minilm.onnx",
    (
        Row("ort", Interval(118.6, 117.1, 120.3), 244.0, 1480.0, 3_700_000),
        Row("untuned", Interval(63.8, 62.9, 64.9), 87.8, 610.0, 121_000, 4e-6),
        Row("tuned", Interval(59.6, 58.9, 60.4), 87.8, 620.0, 134_000, 4e-6),
    ),
    {"ort": Interval(1.99, 1.95, 2.03)},
    gain=Interval(1.07, 1.05, 1.09),
    rate=0.99,
    sentinel_ms=4.0,
    pairs=24,
    wanted=24,
    versions={"onnxruntime-web": "1.30.0"},
    created="2026-11-22T20:00:00.000+00:00",
)
SLOWER = replace(FASTER, ratios={"ort": Interval(0.8, 0.75, 0.85)})
ROUGH = replace(FASTER, rate=0.8)
BUSY = replace(FASTER, rate=0.3)
FEW = replace(FASTER, ratios={}, pairs=1)
SAME = replace(FASTER, ratios={"ort": Interval(1.02, 0.97, 1.07)})
MEASURING = replace(FASTER, phase="measuring", pairs=7)
BEGUN = replace(
    MEASURING, rows=(Row("ort"), Row("untuned")), ratios={}, phase="opening ort", pairs=0
)
NO_PEER = replace(
    FASTER, rows=(Row("ort"), *(replace(r, max_rel_err=None) for r in FASTER.rows[1:])),
    ratios={}, versions={},
)  # fmt: skip
REFUSED = replace(
    NO_PEER,
    versions=FASTER.versions,
    rows=(Row("ort", problem="Could not find an implementation for Foo(1)"), *NO_PEER.rows[1:]),
)
DIFFERENT = replace(
    FASTER, rows=(*FASTER.rows[:2], replace(FASTER.rows[2], max_rel_err=0.7))
)  # fmt: skip
ALONE = replace(
    FASTER, absent="The operator Foo of node 'foo' is not supported.", rows=FASTER.rows[:1],
    ratios={}, gain=None,
)  # fmt: skip
TURBO = replace(
    ALONE, rows=(*ALONE.rows, Row("turbo", Interval(79.1, 78.0, 80.2), max_rel_err=0.0)),
    ratios={"ort": Interval(1.5, 1.46, 1.53)},
)  # fmt: skip
STATES = {
    "faster": FASTER,
    "slower": SLOWER,
    "busy": BUSY,
    "few pairs": FEW,
    "not told apart": SAME,
    "measuring": MEASURING,
    "no peer": NO_PEER,
    "refused": REFUSED,
    "peer alone": ALONE,
    "different": DIFFERENT,
}


def fake_peer(folder: Path, module: str) -> Path:
    """A package that looks like onnxruntime-web, with this module; the folder that names it."""
    package = folder / "node_modules" / "onnxruntime-web"
    (package / "dist").mkdir(parents=True)
    (package / "package.json").write_text('{"version": "9.9.0"}')
    for name in ("ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"):
        (package / "dist" / name).write_bytes(b"")
    (package / "dist" / "ort.wasm.min.mjs").write_text(module)
    return folder
