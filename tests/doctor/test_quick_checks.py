"""What the first look says of machines of all kinds, and the sample that is written once."""

from pathlib import Path

import pytest

from nnjit_studio.doctor import checks as checks_module
from nnjit_studio.doctor import examination
from nnjit_studio.doctor.checks import BAD, GOOD, NOTE
from nnjit_studio.doctor.examination import examine
from nnjit_studio.doctor.gpu_survey import BridgeFinding, BrowserFinding
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.engine.browsers.sandbox import UNTOUCHED, Sandbox
from nnjit_studio.errors import TargetError, UserError
from nnjit_studio.records import DeviceProfile
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.samples import first

WELL = DeviceProfile(
    "a", "embedded", tiers=("simd128", "relaxed-simd"), peak_gflops={"relaxed-simd": 52.4},
    cross_origin_isolated=True, timer_quantum_ms=0.005, cores=2,
)  # fmt: skip
CHROMIUM = Browser("chromium", "chromium", Path("/b/chromium"))


@pytest.fixture
def machine(monkeypatch):
    found = {"browsers": (CHROMIUM,), "bridge": BridgeFinding(), "finding": None}
    monkeypatch.setattr(examination.browsers, "find_all", lambda: found["browsers"])
    monkeypatch.setattr(examination, "survey_bridge", lambda: found["bridge"])
    monkeypatch.setattr(examination, "survey_browser", lambda *asked: found["finding"])
    return found


def look(tmp_path, device=WELL, sandbox=UNTOUCHED, survey=False):
    def probe():
        if device is None:
            raise TargetError("The page did not answer.", "Start again.")
        return device

    phases = []
    found = examine(probe, lambda: sandbox, tmp_path, survey, on_phase=phases.append)
    return {check.name: check for check in checks_module.checks(found)}, phases


def test_a_machine_where_all_is_well_asks_no_browser(machine, tmp_path):
    checks, phases = look(tmp_path / "not" / "yet")
    assert {check.state for check in checks.values()} == {GOOD}
    assert checks["Engine"].found == "relaxed-simd, cross-origin isolated, timer 5 µs"
    assert checks["One thread"].found == "52 GFLOP/s (relaxed-simd), measured; 2 cores"
    assert checks["Browsers"].found == "chromium"
    assert checks["Kernel database"].found.startswith("a crash loses no kernel (SQLite 3.")
    assert phases == ["asking the engine", "asking the compile process"]


def test_what_is_missing_comes_with_the_next_step(machine, tmp_path, monkeypatch):
    machine["browsers"] = ()
    monkeypatch.setattr(checks_module, "LEAST_FREE_BYTES", 1 << 60)
    checks, _ = look(tmp_path, device=None, sandbox=Sandbox("--no-sandbox"))
    states = {name: check.state for name, check in checks.items()}
    assert states == {
        "Engine": BAD, "Sandbox": NOTE, "Disk": BAD, "Kernel database": GOOD, "Browsers": NOTE,
    }  # fmt: skip
    assert all(c.next_step for c in checks.values() if c.state != GOOD)


@pytest.mark.parametrize(
    ("gpu", "software", "state", "words"),
    [
        (None, "", NOTE, "Chromium 156; no WebGPU adapter: none"),
        (GpuProfile(description="ACME"), "", GOOD, "Chromium 156; WebGPU on ACME"),
        (
            GpuProfile(),
            "SwiftShader",
            NOTE,
            "Chromium 156; WebGPU in software (SwiftShader), no GPU",
        ),
    ],
)
def test_browsers_are_asked_for_their_adapters(machine, tmp_path, gpu, software, state, words):
    machine["finding"] = BrowserFinding(
        CHROMIUM, "Chromium 156 built on Some System", "", gpu, software=software, reason="none."
    )
    machine["bridge"] = BridgeFinding(({"description": "ACME", "software": ""},))
    checks, phases = look(tmp_path, survey=True)
    assert (checks["Chromium"].state, checks["Chromium"].found) == (state, words)
    assert (checks["GPU"].state, checks["GPU"].found) == (GOOD, "ACME")
    assert phases[1:-1] == ["asking chromium for its GPU", "asking for GPUs"]


def test_the_sample_is_written_once_and_whole(tmp_path, monkeypatch):
    written = []

    def write(name, out, sequence):
        written.append(name)
        out.write_bytes(b"model")

    monkeypatch.setattr(first, "sample_name", lambda: first.SEEDED)
    monkeypatch.setattr(first, "write_model", write)
    phases = []
    paths = {first.sample_model(phases.append, tmp_path / "cache") for _ in range(2)}
    assert paths == {tmp_path / "cache" / "vit-tiny.onnx"}
    assert written == ["vit-tiny"] and phases == ["writing the sample model"]


def test_a_sample_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    def write(out):
        out.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(first, "sample_name", lambda: first.TRAINED)
    monkeypatch.setattr(first, "write_minilm", write)
    with pytest.raises(UserError, match="No space left"):
        first.sample_model(lambda text: None, tmp_path)
    assert list(tmp_path.iterdir()) == []
