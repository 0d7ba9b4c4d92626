"""What a call leaves unwritten is found, whatever was in memory before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from onnx_models import save

from nnjit_studio.compiler.any_size.imports import AnySize, import_any
from nnjit_studio.compiler.any_size.runs.rubbish import Fresh, fresh, run_twice
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.errors import ModelError
from nnjit_studio.records import TIERS

MINE = Fresh((0,), (1,))


def memory() -> Callable[[int], np.ndarray]:
    held = {0: np.arange(12, dtype=np.uint8), 1: np.zeros(4, np.uint8)}
    return held.__getitem__


@pytest.mark.parametrize("value", [0, 0x7F, 0xFF])
def test_a_result_may_be_anything(value: int) -> None:
    places = memory()

    def run() -> None:
        places(0)[:] = value

    run_twice(run, MINE, places)
    assert (places(0) == value).all()


def test_a_byte_that_is_not_written_is_found_where_the_right_one_was_before() -> None:
    places = memory()
    right = places(0).copy()

    def run() -> None:
        places(0)[:-1] = right[:-1]

    with pytest.raises(
        ModelError, match=r"a kernel leaves 8\.3% of a result to what was in memory"
    ):
        run_twice(run, MINE, places)


def test_a_result_that_hangs_on_a_workspace_is_found() -> None:
    places = memory()

    def run() -> None:
        places(0)[:] = places(1)[0]

    with pytest.raises(ModelError, match=r"a kernel leaves 100\.0% of a result"):
        run_twice(run, MINE, places)


def layers(folder: Path) -> AnySize:
    rng = np.random.default_rng(0)
    weight = {"w": rng.standard_normal((16, 16)).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"], axis=-1),
    ]
    path = save(folder / "m.onnx", nodes, {"x": ["n", 16]}, {"y": ["n", 16]}, weight)
    made = import_any(path, folder / "w.bin", {"x": np.ones((5, 16), np.float32)})
    assert made is not None
    return made


def test_each_tensor_is_the_result_of_one_call(tmp_path: Path) -> None:
    plan = layers(tmp_path).plan.at({"n": 9})
    results = [place for each in fresh(plan).values() for place in each.results]
    arena = {i for i, b in enumerate(plan.buffers) if b.region == "arena" and b.nbytes}
    spare = {place for each in fresh(plan).values() for place in each.spare}
    assert len(results) == 2
    assert {*results} == arena - {plan.inputs[0].buffer} - spare


@pytest.mark.parametrize("tier", TIERS)
def test_a_kernel_that_leaves_rows_out_is_refused(tmp_path: Path, tier: str) -> None:
    made, x = layers(tmp_path), np.ones((41, 16), np.float32)
    weights = tmp_path / "w.bin"
    OpenRunner(made.plan, made.kernels, weights, tier).run({"n": 41}, {"x": x})
    for name, kernel in made.plan.kernels.items():
        short = [replace(v, extent=v.extent - 1) for v in kernel.variants]
        cut = {**made.plan.kernels, name: replace(kernel, variants=tuple(short))}
        runner = OpenRunner(replace(made.plan, kernels=cut), made.kernels, weights, tier)
        with pytest.raises(ModelError, match=r"a kernel leaves .* to what was in memory before"):
            runner.run({"n": 41}, {"x": x})
