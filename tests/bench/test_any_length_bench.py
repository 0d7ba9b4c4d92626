"""The measurement of one bundle at any length, without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scripts import benchmark


@pytest.fixture
def script() -> Any:
    return benchmark("any_size")


def test_bundles_of_one_length_may_be_left_out(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []
    memory = {"forecast": 10, "fixed": 0}

    def exported(folder: Path, name: str, *rest: Any) -> str:
        made.append(name)
        return f"{name}/manifest.json"

    def measured(folder: Path, job: dict[str, Any], options: Any) -> dict[str, Any]:
        samples = {"any": [1.0, 1.0, 1.0], "ort": [2.0, 2.0, 2.0]}
        rows = [
            script.row_of(
                {
                    "length": n, "samples_ms": samples, "memory": memory, "first_ms": 1.0,
                    "again_ms": [1.0] * 5, "differences": [0.0],
                },
                {"any": 4},
            )
            for n in sorted(job["lengths"])
        ]  # fmt: skip
        load = {"load_before": [0.0] * 3, "load_after": [0.0] * 3}
        return {
            "rows": rows, "memory": [], "warm_runs": 1, "warm_ms": 1.0, "compiled_in_runs": 0,
            "browser": "a", "started": "now", "cpu": "some", "cores": 2, "versions": {}, **load,
        }  # fmt: skip

    monkeypatch.setattr(script, "exported", exported)
    monkeypatch.setattr(script, "measured", measured)
    monkeypatch.setattr(script, "write_minilm", lambda *_: None)
    monkeypatch.setattr(
        "sys.argv", ["any_size.py", "--static", "0", "--lengths", "4", "--out", str(tmp_path)]
    )
    assert script.main(script.arguments()) == 0
    told = capsys.readouterr().out
    assert made == ["any"] and "geometric mean 2.00" in told and "one length:" not in told


@pytest.mark.parametrize(("count", "found"), [(0, []), (1, [3]), (2, [3, 7]), (9, [3, 5, 7, 9])])
def test_lengths_with_a_bundle_of_their_own_are_spread(
    script: Any, count: int, found: list[int]
) -> None:
    assert script.spread([3, 5, 7, 9], count) == found
