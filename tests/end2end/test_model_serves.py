"""A model that serves in the embedded view while it is tuned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from nnjit_command import SANDBOX, events_until

sys.path.insert(0, str(Path(__file__).parents[1] / "compiler"))
from onnx_models import mlp

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize("how", [["--serve"], ["--serve", "20", "--full-speed"]])
def test_tuning_goes_on_while_the_model_serves(tmp_path: Path, how: list[str]) -> None:
    model = mlp(tmp_path / "mlp.onnx", rows=64, sizes=(63, 32, 7))
    database = tmp_path / "k.db"
    options = ["--seconds", 1000, "--exhaustive", "--json", "--database", database, *SANDBOX]
    # With a budget the page needs some inferences without tuning, for what it compares with.
    told = "p95_reference_ms" if "--full-speed" not in how else "p95_ms"

    def enough(events: list[dict[str, Any]]) -> bool:
        served = [e for e in events if e["event"] == "served"]
        return (
            sum(e["inferences"] for e in served) >= 20
            and any(e[told] is not None for e in served)
            and any(e["event"] == "round" for e in events)
        )

    events, code = events_until(enough, "tune", model, *how, *options)
    assert code == 0
    served = [e for e in events if e["event"] == "served"]
    assert all(ms > 0 for e in served for ms in e["latencies_ms"])
    assert events[-1]["event"] == "summary"
    swaps = sum(e["event"] == "swapped" for e in events)
    generations = [g for e in served for g in e["generations"]]
    assert generations == sorted(generations)
    assert generations[-1] <= swaps + 1, "the session begins with a register of its own"
    reference = [e["p95_reference_ms"] for e in served]
    assert all(ms is None for ms in reference) if "--full-speed" in how else any(reference)
