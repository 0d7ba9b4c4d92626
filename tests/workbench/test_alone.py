"""Sizes from one import, each in turns with a bundle for it alone."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from nnjit_studio.advice.measure import Form, Found
from nnjit_studio.advice.records import Measurement
from nnjit_studio.analysis.profile.sizes import SizeRow, SizesProfile
from nnjit_studio.errors import ModelError
from nnjit_studio.model import ImportOptions
from nnjit_studio.records.estimate import Estimate
from nnjit_studio.verdict.figures import Interval
from nnjit_studio.workbench.jobs import alone

INPUTS = [{"x": np.zeros((1, n), np.float32)} for n in (4, 8, 16)]
ROW = SizeRow({"n": 4}, Estimate(6, 5, 7, 5), 9.0, 1 << 20, 1 << 19)
FOUND = SizesProfile("m", "embedded", "", 2, "simd128", (ROW, ROW, ROW), ("A note.",))
TWICE = Interval(2.0, 1.9, 2.1)


@pytest.fixture
def model() -> Any:
    page = SimpleNamespace(threads=2, cancelled=False, working=contextlib.nullcontext)
    current = SimpleNamespace(path=Path("m.onnx"), importing=ImportOptions())
    return SimpleNamespace(page=page, current=current)


def test_each_size_has_the_ratio_of_its_own_bundle(
    model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A size without a bundle is named, a busy machine's ratio is none."""
    forms = [Form(f"open-{i}", "", {}, (), 2) for i in range(3)]
    pairs, told = [], []

    def of_file(model: object, plain: Any, folder: Path, name: str) -> object:
        if plain.importing.shapes.hints["x"] == (1, 8):
            raise ModelError("No loop of it ends.")
        return SimpleNamespace(form=Form(name, "", plain.feeds, (), plain.threads))

    def measure(folder: Path, base: Form, form: Form, *_: object) -> list[Found]:
        pairs.append((base.name, form.name, form.feeds["x"].shape, form.threads))
        ms = Interval(1.0, 1.0, 1.0)
        return [Found(), Found(Measurement(ms, ms, TWICE, 24, 1.0 if len(pairs) == 1 else 0.1))]

    monkeypatch.setattr(alone, "of_file", of_file)
    monkeypatch.setattr(alone, "measure", measure)
    for name in ("open-0", "open-1", "open-2", "alone-1", "alone-3"):
        (tmp_path / name).mkdir()
    visits: Any = None
    found = alone.with_alone(model, FOUND, forms, INPUTS, tmp_path, visits, told.append)
    assert [row.alone for row in found.rows] == [TWICE, None, None]
    assert found.rows[0].alone_ms == 3.0
    assert pairs == [("open-0", "alone-1", (1, 4), 2), ("open-2", "alone-3", (1, 16), 2)]
    assert found.notes == (
        "A note.", alone.ABOUT, "There is no bundle for n 4 alone: No loop of it ends.", alone.BUSY
    )  # fmt: skip
    assert told[-1].endswith("3 of 3")
    assert [p.name for p in tmp_path.iterdir()] == ["open-1"], "weights take room on the disk"
