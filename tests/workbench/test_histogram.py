"""How often sizes run, from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.model import Graph
from nnjit_studio.model.survey import InputPort, Survey
from nnjit_studio.workbench.inputs import histogram
from nnjit_studio.workbench.inputs.histogram import Histogram, read_histogram, runs_at, typical
from nnjit_studio.workbench.jobs.size_tuning import shares_of

IDS = InputPort("ids", "int64", ("batch", "sequence"))
MODEL = Survey(Path("nowhere/m.onnx"), "0", 0, 17, (IDS,), Graph("m", (), (), (), {}), {})


def written(folder: Path, text: str) -> Path:
    path = folder / "sizes.txt"
    path.write_text(text, encoding="utf-8")
    return path


def read(*paths: Path) -> Histogram:
    return read_histogram(paths, MODEL, "sequence")


def test_sizes_with_counts_or_without(tmp_path: Path) -> None:
    assert read(written(tmp_path, "16\n16\n\n64,3\n128 2\n")) == {
        16: 2, 64: 3, 128: 2
    }  # fmt: skip
    assert read(written(tmp_path, "\ufeff16\n")) == {16: 1}, "as Windows writes"


def test_texts_count_by_their_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "one two\nthree\n2 words here\n")
    with pytest.raises(UserError, match="no tokenizer"):
        read(path)
    monkeypatch.setattr(histogram, "tokenizer_beside", lambda model: tmp_path)
    monkeypatch.setattr(histogram, "lengths_of", lambda _, texts: [len(t.split()) for t in texts])
    assert read(path) == {2: 1, 1: 1, 3: 1}


def test_inputs_count_once_each_and_files_add_up(tmp_path: Path) -> None:
    for name, length in (("a", 7), ("b", 7), ("c", 9)):
        np.savez(tmp_path / f"{name}.npz", ids=np.zeros((1, length), np.int64))
    recorded = sorted(tmp_path.glob("*.npz"))
    assert read(*recorded, written(tmp_path, "9 2\n")) == {7: 2, 9: 3}
    with pytest.raises(UserError, match=r"a.npz has no input with the dimension width"):
        read_histogram(recorded, MODEL, "width")


@pytest.mark.parametrize("text", ["", "0\n", "16 0\n"])
def test_no_sizes_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match="has no sizes"):
        read(written(tmp_path, text))


def test_a_few_sizes_stand_for_all() -> None:
    assert typical({n: 1 for n in range(1, 101)}) == (10, 30, 50, 70, 90)
    assert typical({7: 5}) == (7,)
    assert typical({8: 90, 500: 10}) == (8,)
    assert runs_at({8: 4, 11: 1, 12: 1, 100: 2}, (8, 16, 64)) == (5, 1, 2)


def test_shares_are_as_many_as_sizes() -> None:
    assert shares_of((), 4) == (0.25,) * 4
    assert shares_of((3, 0, 1), 3) == (0.75, 0, 0.25)
    for runs in ((1, 2), (0, 0, 0), (1, -1, 1)):
        with pytest.raises(UserError, match="3 sizes"):
            shares_of(runs, 3)
