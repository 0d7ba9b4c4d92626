"""Two bundles of one model, compared."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from nnjit_studio.bundle.sizes import growth
from nnjit_studio.doctor.deployment import versions as module
from nnjit_studio.doctor.deployment.versions import (
    Limits,
    Versions,
    compare_versions,
    exceeded,
    text,
)
from nnjit_studio.engine.browsers import browsers
from nnjit_studio.errors import TargetError, UserError
from nnjit_studio.records.estimate import Estimate, Ratio

ENGINE = """
export class Tensor { constructor(type, data) { this.data = Float32Array.from(data); } }
export class InferenceSession {
  static async create() {
    return Object.assign(new InferenceSession(), { manifest: { inputs: [{ shape: [SIZE] }] },
      inputMetadata: [{ name: "x", type: "float32" }], tier: "simd128", threads: 1 });
  }
  async run({ x }) {
    const end = performance.now() + SPIN;
    while (performance.now() < end);
    return { y: { data: x.data.map((v) => v * 2 + BIAS) } };
  }
}
"""


def bundle(path: Path, spin: str, bias: str, size: str = "4") -> Path:
    engine = ENGINE.replace("SPIN", spin).replace("BIAS", bias).replace("SIZE", size)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("nnjit.js", engine)
        archive.writestr("index.html", "<!doctype html><title>page</title>")
    return path


def test_two_bundles_take_turns_on_the_same_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        chromium = browsers.find("chromium")
    except TargetError:
        pytest.skip("Chromium is not installed")
    monkeypatch.setattr(module, "sizes", lambda path: {"engine": path.stat().st_size})
    a, b = bundle(tmp_path / "a.zip", "4", "0"), bundle(tmp_path / "b.zip", "40", "0.5")
    found = compare_versions(a, b, chromium, seconds=0.7)
    assert found.a.ms >= 4 and found.b.ms >= 40 and found.ratio.value > 1
    assert 0.2 < found.error < 100
    assert found.growth == {"engine": b.stat().st_size - a.stat().st_size}
    other = bundle(tmp_path / "c.zip", "4", "0", "5")
    with pytest.raises(UserError, match="take different inputs"):
        compare_versions(a, other, chromium, seconds=0.1)


def made(ratio: Ratio, error: float = 0.0, more: int = 0) -> Versions:
    time = Estimate(1.0, 0.9, 1.1, 30)
    grown = {"weights": more} if more else {}
    return Versions(time, time, ratio, 1_000_000, 1_000_000 + more, grown, error, "here")


def test_limits_are_exceeded_in_sentences() -> None:
    slow = Ratio(1.2, 1.1, 1.3, 30)
    assert exceeded(made(slow), Limits()) == []
    assert exceeded(made(slow), Limits(slower=1.15)) == []  # the interval says it is not sure
    assert exceeded(made(slow), Limits(slower=1.05)) == [
        "It takes 1.200 (1.100 to 1.300) times the time; 1.05 is allowed."
    ]
    unknown = Ratio(1.0, 0.0, float("inf"), 2)
    assert exceeded(made(unknown), Limits(slower=9)) == [
        "Too few pairs were measured to say whether it is slower."
    ]
    found = made(slow, error=0.01, more=2_000_000)
    assert exceeded(found, Limits(growth_mb=2, error=0.01)) == []
    said = exceeded(found, Limits(growth_mb=1, error=0.001))
    assert said == [
        "It is 2.00 MB larger; 1 MB are allowed; most of it are the weights.",
        "Its outputs differ by 0.01; 0.001 is allowed.",
    ]
    assert "weights +2,000,000 bytes" in text(found)
    assert "too few pairs" in text(made(unknown))
    assert found.to_json()["time"]["low"] == 1.1


def test_growth_is_by_part_the_largest_first() -> None:
    assert growth({"a": 5, "b": 7, "c": 1}, {"a": 4, "b": 7, "d": 9}) == {"d": 9, "a": -1, "c": -1}
