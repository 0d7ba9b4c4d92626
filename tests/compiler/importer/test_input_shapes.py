"""Open dimensions: asked for by name, and settled by options, whole shapes or arrays."""

from __future__ import annotations

import re
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from nnjit_studio.compiler.onnx_file.input_shapes import fix_input_shapes
from nnjit_studio.errors import ModelError
from nnjit_studio.model import GivenShapes


def model(**inputs: list[int | str | None]) -> onnx.ModelProto:
    kinds = {"ids": TensorProto.INT64}
    ports = [
        helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s)
        for n, s in inputs.items()
    ]
    return helper.make_model(helper.make_graph([], "g", ports, []))


def fixed(given: GivenShapes, **inputs: list[int | str | None]) -> dict[str, tuple[int, ...]]:
    return fix_input_shapes(model(**inputs), given)


def test_the_question_lists_every_open_input_and_the_options_that_answer_it() -> None:
    with pytest.raises(ModelError) as raised:
        fixed(GivenShapes(), ids=["batch", "sequence"], x=[2, 3], y=[None, 4])
    assert "ids [batch, sequence], y [y.0, 4]" in raised.value.error
    assert "--dim batch=1 --dim sequence=128 --dim y.0=1" in raised.value.hint


def test_examples_are_sizes_that_a_voice_detector_or_a_network_of_pictures_takes() -> None:
    """Silero's runs on a window of 512 samples and not on one, which the hint named."""
    with pytest.raises(ModelError) as raised:
        fixed(GivenShapes(), input=[None, None], state=[2, None, 128], x=["n", 3, "h", "w"])
    told = "--dim input.0=1 --dim input.1=512 --dim state.1=1 --dim n=1 --dim h=224 --dim w=224"
    assert told in raised.value.hint


def test_dimensions_without_a_name_are_one_variable_each() -> None:
    found = fixed(GivenShapes(hints={"x": (2, 3, 5, 7)}), x=[None, "?", "?", "-1"])
    assert found == {"x": (2, 3, 5, 7)}
    assert fixed(GivenShapes({"x.0": 2, "x.1": 3}), x=["?", "?"]) == {"x": (2, 3)}


def test_a_number_as_a_name_is_that_number() -> None:
    assert fixed(GivenShapes(), x=["2", 3]) == {"x": (2, 3)}


def test_a_name_settles_every_input_that_has_it() -> None:
    found = fixed(GivenShapes({"b": 2, "s": 5}), x=["b", "s"], y=["b", 7])
    assert found == {"x": (2, 5), "y": (2, 7)}


def test_a_whole_shape_settles_its_names_elsewhere() -> None:
    found = fixed(GivenShapes(shapes={"x": (2, 5)}), x=["b", "s"], y=["b", "s", 3])
    assert found == {"x": (2, 5), "y": (2, 5, 3)}


def test_arrays_fill_in_what_no_option_gave() -> None:
    given = GivenShapes({"b": 2}, hints={"x": (9, 5), "y": (1, 4)})
    assert fixed(given, x=["b", "s"], y=[None, 4]) == {"x": (2, 5), "y": (1, 4)}


@pytest.mark.parametrize(
    ("hints", "told"),
    [
        ({"x": (0, 5), "y": (0, 4)}, "input 'x' is empty"),
        ({"x": (3, 5), "y": (4, 4)}, r"input 'y' has the shape \[4, 4\], but b is 3"),
    ],
)
def test_arrays_that_are_empty_or_disagree_are_named(hints: dict[str, Any], told: str) -> None:
    with pytest.raises(ModelError, match=told):
        fixed(GivenShapes(hints=hints), x=["b", "s"], y=["b", 4])
    assert fixed(GivenShapes({"b": 2}, hints=hints), x=["b", "s"], y=["b", 4])["x"] == (2, 5)


def test_the_model_itself_has_the_shapes_afterwards() -> None:
    changed = model(x=["b", 3])
    fix_input_shapes(changed, GivenShapes({"b": 4}))
    assert [d.dim_value for d in changed.graph.input[0].type.tensor_type.shape.dim] == [4, 3]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (GivenShapes({"c": 1}), "no open dimension 'c'"),
        (GivenShapes(shapes={"z": (1,)}), "no input 'z'"),
        (GivenShapes(shapes={"x": (1, 4)}), "cannot have the shape [1, 4]: the model says [b, 3]"),
        (GivenShapes(shapes={"x": (1, 3, 1)}), "cannot have the shape"),
    ],
)
def test_what_does_not_fit_the_model_is_said(given: GivenShapes, wrong: str) -> None:
    with pytest.raises(ModelError, match=re.escape(wrong)):
        fixed(given, x=["b", 3])
