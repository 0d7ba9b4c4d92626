"""Which rows a model has, and the smaller inputs among them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnjit_studio.advice.records import IMPOSSIBLE, WAITING, Row
from nnjit_studio.advice.rows import Facts, rows_of
from nnjit_studio.advice.sizes import resized, smaller_shapes
from nnjit_studio.model import Graph, ImportOptions, TensorSpec
from nnjit_studio.model.plan_choice import PlanChoice
from nnjit_studio.model.survey import InputPort, Survey

PICTURE = TensorSpec("x", (1, 3, 640, 480), "f32")
RATE = TensorSpec("sr", (1,), "i64")


def rows(
    *dims: int | str, outputs: int = 1, threads: int = 1, half: bool = False
) -> dict[str, Row]:
    ports = (InputPort("x", "float32", dims), InputPort("sr", "int64", (1,)))
    graph = Graph("m", (), {}, (), ())
    feeds = {"x": np.zeros(PICTURE.shape, np.float32), "sr": np.array([16000])}
    facts = Facts(
        Survey(Path("m.onnx"), "", 0, 17, ports, graph),
        ImportOptions(half_weights=half),
        (
            PlanChoice("winograd:3x8x8x4", "4x4", "4x4", ("direct",), "tiles"),
            PlanChoice("merge", "on", "on", ("off",), "one product"),
        ),
        (PICTURE, RATE),
        tuple(TensorSpec(f"y{i}", (1,), "f32") for i in range(outputs)),
        feeds,
        threads,
        cores=4,
    )
    return {row.name: row for row in rows_of(facts)}


def test_every_row_has_a_way_or_a_reason() -> None:
    found = rows(1, 3, "h", "w", outputs=2)
    assert {"threads", "f16-weights", "int8-dynamic", "int8-static", "int8-rows", "4-bit", "webgpu",
            "direct-convolutions", "plan-merge-off", "smaller-inputs", "only-y0", "only-y1",
            "constant-inputs"} == set(found)  # fmt: skip
    assert {row.state for row in found.values()} == {WAITING}
    assert found["plan-merge-off"].apply.ways == {"merge": "off"}
    assert found["threads"].apply.threads == 4 and "same-origin" in found["threads"].asks
    assert found["threads"].title.startswith("4 threads instead of 1")
    smaller = found["smaller-inputs"]
    assert "sr" in smaller.apply.shapes and smaller.title.endswith(": x 1x3x480x352"), "not sr"
    recipe = found["constant-inputs"].apply.recipe
    assert recipe and list(recipe.constants) == ["sr"] and "16000" in found["constant-inputs"].asks


def test_what_cannot_be_says_why() -> None:
    found = rows(1, 3, 640, 480, threads=4, half=True)
    names = ("threads", "f16-weights", "smaller-inputs", "one-output")
    assert all(found[name].state == IMPOSSIBLE and found[name].problem for name in names)


def test_pictures_and_texts_get_smaller_sizes() -> None:
    assert smaller_shapes({"x": (1, 3, "h", "w")}, [PICTURE]) == {"x": (1, 3, 480, 352)}
    line = TensorSpec("x", (1, 3, 48, 320), "f32")
    assert smaller_shapes({"x": (1, 3, "h", "w")}, [line]) == {"x": (1, 3, 48, 224)}
    ids, mask = (TensorSpec(name, (1, 128), "i64") for name in ("ids", "mask"))
    dims = {"ids": ("batch", "n"), "mask": ("batch", "n")}
    assert smaller_shapes(dims, [ids, mask]) == {"ids": (1, 64), "mask": (1, 64)}
    assert smaller_shapes({"ids": ("batch", 128)}, [ids]) == {}


def test_inputs_follow_their_sizes() -> None:
    feeds = {"x": np.arange(8, dtype=np.float32)[None], "ids": np.arange(8)[None]}
    small = resized(feeds, {"x": (1, 4), "ids": (1, 4)})
    assert small["x"].tolist() == [[0, 2, 4, 6]], "a picture keeps its whole field"
    assert small["ids"].tolist() == [[0, 1, 2, 3]], "a text is cut"
