"""``nnjit doctor --microbench`` in the real embedded view."""

from __future__ import annotations

from pathlib import Path

import pytest
from nnjit_command import SANDBOX, json_lines, nnjit

from nnjit_studio.database import KernelDatabase
from nnjit_studio.device.primitives import PRIMITIVES


@pytest.mark.embedded
def test_the_device_is_measured_right_stored_and_used(tmp_path: Path) -> None:
    database = tmp_path / "kernels.db"
    options = (*SANDBOX, "--database", database, "--json")
    (found,) = json_lines(nnjit("doctor", "--microbench", *options))
    assert found["ok"] and set(found["seconds"]) == {
        "registers", "caches", "bandwidth", "primitives"
    }  # fmt: skip
    for curve in found["curves"].values():
        assert len(curve["x"]) == len(curve["samples"])
        assert all(sample > 0 for samples in curve["samples"] for sample in samples)
    tried = [(e["primitive"], e["setting"]) for e in found["effects"]]
    wanted = [(p.name, s) for p in PRIMITIVES for s in p.settings[1:]]
    relaxed = found["tier"] == "relaxed-simd"
    assert tried == [w for w in wanted if relaxed or w[0] != "relaxed_madd"]
    wrong = [e for e in found["effects"] if "accepted error" in e["error"]]
    assert not wrong, "every variant is a right matmul"
    with KernelDatabase.open(database, read_only=True) as stored:
        (device,) = stored.devices()
    assert device.created == found["created"]
    assert device.limits == found["limits"]


def test_a_target_without_microbench_is_refused() -> None:
    refused = nnjit("doctor", "--target", "chromium")
    assert refused.returncode == 1
    assert "--microbench" in refused.stderr
