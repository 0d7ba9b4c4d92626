"""Settings that won at one size, in kernels of any size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx_models import save

from nnjit_studio.compiler.any_size.imports import AnySize, import_any, import_sizes
from nnjit_studio.compiler.any_size.kernels.remainders import unblocked
from nnjit_studio.compiler.any_size.kernels.tuned import Tuning
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.importer.model import import_model
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.model import GivenShapes
from nnjit_studio.model.family import Family
from nnjit_studio.model.size import Dim, size
from nnjit_studio.records import TIERS
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.size_tuning import KnownSettings, Table

RNG = np.random.default_rng(3)
ROWS_FEW = Candidate(8, 2, 2, 16, 12, 20, "mn", True)
"""Blocks of rows go; blocks of columns, which are known, stay."""
ROWS_MANY = Candidate(8, 5, 4, 8, 5, 40, "nm", True)


def rand(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A product with a bias over any number of rows."""
    path = tmp_path_factory.mktemp("product") / "m.onnx"
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"])]
    weights = {"w": rand(20, 32), "b": rand(32)}
    return save(path, nodes, {"x": ["rows", 20]}, {"y": ["rows", 32]}, weights)


def key_at(model: Path, rows: int, folder: Path) -> str:
    """Of the product in a static import."""
    built = import_model(model, folder / f"{rows}.bin", given=GivenShapes(shapes={"x": (rows, 20)}))
    (workload,) = built.workloads
    return workload.key


def opened(
    model: Path, folder: Path, winners: dict[str, Candidate], tables: dict[str, Table] | None = None
) -> AnySize:
    known = KnownSettings(winners, tables or {})
    made = import_any(model, folder / "w.bin", {"x": rand(3, 20)}, known=known)
    assert made is not None
    return made


def assert_right(made: AnySize, model: Path, folder: Path) -> None:
    session = onnxruntime.InferenceSession(model)
    for tier in TIERS:
        runner = OpenRunner(made.plan, made.kernels, folder / "w.bin", tier)
        for rows in (1, 2, 3, 5, 6, 7, 12, 13, 64, 131):
            x = rand(rows, 20)
            (expected,) = session.run(None, {"x": x})
            got = runner.run({"rows": rows}, {"x": x})["y"]
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5, err_msg=str(rows))


def test_what_won_at_most_sizes_is_taken(model: Path, tmp_path: Path) -> None:
    sizes = {16: ROWS_FEW, 64: ROWS_MANY, 128: ROWS_MANY}
    winners = {key_at(model, rows, tmp_path): tile for rows, tile in sizes.items()}
    made = opened(model, tmp_path, winners)
    (kernel,) = made.plan.kernels.values()
    assert [by for _, by in kernel.selectors] == [ROWS_MANY.y0]
    assert made.notes == ("1 of 1 kernels have settings that were tuned at one size.",)
    assert_right(made, model, tmp_path)


def test_blocks_of_rows_go(model: Path, tmp_path: Path) -> None:
    made = opened(model, tmp_path, {key_at(model, 3, tmp_path): ROWS_FEW})
    (kernel,) = made.plan.kernels.values()
    assert [by for _, by in kernel.selectors] == [ROWS_FEW.y0]
    assert_right(made, model, tmp_path)


def test_settings_that_do_not_apply_are_told(model: Path, tmp_path: Path) -> None:
    winners = {key_at(model, 3, tmp_path): replace(ROWS_FEW, x0=7)}
    made = opened(model, tmp_path, winners)
    (note,) = made.notes
    assert note.startswith("Tuned settings do not suit 0:matmul at any size: x0=7")
    assert_right(made, model, tmp_path)


def family(model: Path, folder: Path) -> Family:
    """Of the product, from an import for several sizes."""
    inputs = [{"x": rand(16, 20)}, {"x": rand(64, 20)}]
    (found,) = import_sizes(model, folder / "s.bin", inputs).families
    assert found.at == tuple(key_at(model, rows, folder) for rows in (16, 64))
    return found


def test_a_table_has_code_for_each_interval(model: Path, tmp_path: Path) -> None:
    few, many = replace(ROWS_FEW, x0=8, x1=8), ROWS_MANY
    key = family(model, tmp_path).key
    rows: Table = ((6, str(few)), (40, str(replace(many, y0=3))), (None, str(many)))
    made = opened(model, tmp_path, {key_at(model, 16, tmp_path): ROWS_FEW}, {key: rows})
    (kernel,) = made.plan.kernels.values()
    tiles = (few.y0, 3, many.y0)
    assert [by for _, by in kernel.selectors] == [len(kernel.variants)] == [sum(tiles)]
    for n, tile, first in ((1, 2, 0), (6, 2, 0), (7, 3, 2), (40, 3, 2), (41, 5, 5), (131, 5, 5)):
        assert kernel.at({"rows": n}) == kernel.variants[first + n % tile]
    assert made.notes == ("1 of 1 kernels have settings compared at several sizes.",)
    assert_right(made, model, tmp_path)


def test_a_first_guess_that_was_proven_best_stays(model: Path, tmp_path: Path) -> None:
    tables: dict[str, Table] = {family(model, tmp_path).key: ((None, "default"),)}
    made = opened(model, tmp_path, {key_at(model, 3, tmp_path): ROWS_FEW}, tables)
    assert made.plan.kernels == opened(model, tmp_path, {}).plan.kernels


def test_intervals_with_other_panels_are_refused(model: Path, tmp_path: Path) -> None:
    rows: Table = ((40, str(ROWS_MANY)), (None, str(replace(ROWS_MANY, x0=4, x1=4))))
    made = opened(model, tmp_path, {}, {family(model, tmp_path).key: rows})
    (note,) = made.notes
    assert note.endswith("its intervals want a weight in different panels.")


def test_a_family_is_the_same_in_another_model(model: Path, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["a"], ["x"]),
        helper.make_node("Gemm", ["x", "w", "b"], ["h"]),
        helper.make_node("Softmax", ["h"], ["y"]),
    ]
    weights = {"w": rand(20, 32), "b": rand(32)}
    shapes = {"a": ["length", 20]}, {"y": ["length", 32]}
    other = save(tmp_path / "other.onnx", nodes, *shapes, weights)
    inputs = [{"a": rand(8, 20)}, {"a": rand(24, 20)}]
    (found,) = import_sizes(other, tmp_path / "o.bin", inputs).families
    assert found.key == family(model, tmp_path).key
    assert found.name == "matmul:?x20x32:f32+bias"


def test_other_sizes_win_nothing(model: Path, tmp_path: Path) -> None:
    assert opened(model, tmp_path, {key_at(model, 37, tmp_path): ROWS_FEW}).notes == ()


def test_an_open_reduction_is_not_blocked(model: Path, tmp_path: Path) -> None:
    built = import_model(model, tmp_path / "b.bin", given=GivenShapes(shapes={"x": (12, 20)}))
    product = subject_of(next(iter(built.programs.values())))
    assert isinstance(product, Contraction)
    tile = unblocked(ROWS_FEW, [product, replace(product, k=40)])
    assert (tile.x1, tile.y1) == (ROWS_FEW.x1, ROWS_FEW.y1)
    assert tile.r1 >= 40


def test_extents_on_either_side_of_an_end_are_checked() -> None:
    """Of a signal's length, too, which many samples leave as it is; ends out of reach have none."""
    samples = Dim("samples", 400, 40_000)
    frames, tuning = size(samples) // 320, Tuning([samples], {"samples": 400}, KnownSettings())
    assert [frames.at(at) for at in tuning._up_to(frames, 20)] == list(range(13, 29))
    assert list(tuning._up_to(frames, 1000)) == []
