"""A small crowd around the real rule; `make crowd-simulation` runs a million devices."""

from __future__ import annotations

import crowd_devices as devices
import numpy as np
import pytest
from crowd import CrowdOptions, CrowdResult, merged, simulate

HONEST = CrowdOptions(devices=600, kinds=4)
LIARS = CrowdOptions(devices=600, kinds=4, liars=0.3)
SYBILS = CrowdOptions(devices=40, kinds=1, sybils=10_000)
KEPT = CrowdOptions(devices=400, kinds=2, sybils=400, truthful=True)
"""Attackers whose slow settings are as fast as they say."""


def figures(options: CrowdOptions) -> dict[str, float]:
    return simulate(options).to_json()


def test_a_new_device_of_a_known_kind_needs_one_round() -> None:
    honest = figures(HONEST)
    assert honest["of_a_known_kind"] > 500
    assert honest["rounds_to_3_percent_median"] <= 1
    assert honest["regret_mean_known"] <= 0.02 and honest["regret_p99"] <= 0.05
    assert honest["slowest_over_default"] <= 1.01


@pytest.mark.parametrize("attacked", [LIARS, SYBILS, KEPT], ids=["liars", "sybils", "kept"])
def test_attackers_cost_rounds_and_never_speed(attacked: CrowdOptions) -> None:
    found = figures(attacked)
    assert found["regret_mean"] <= 0.05 and found["slowest_over_default"] <= 1.01


def test_the_same_seed_gives_the_same_crowd_in_any_parts() -> None:
    small = CrowdOptions(devices=60, kinds=3)
    whole = simulate(small)
    assert whole == merged([simulate(small, range(0, 1)), simulate(small, range(1, 3))])
    assert whole != simulate(CrowdOptions(devices=60, kinds=3, seed=2))


def test_without_the_devices_own_measurement_the_bounds_break(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lines above can fail: a device that believes every claim runs slow kernels."""

    def believes(*_: object, **__: object) -> tuple[float, float, float]:
        return 2.0, 1.9, 2.1

    monkeypatch.setattr(devices.Device, "duel", believes)
    found: CrowdResult = simulate(LIARS)
    assert found.worst > 1.01 and np.mean(found.regrets) > 0.05
