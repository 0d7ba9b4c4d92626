"""Roles of open axes, values of inputs, and files for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.model import GivenShapes, Graph, TensorSpec
from nnjit_studio.model.survey import InputPort, Survey
from nnjit_studio.workbench.inputs import edited, roles, texts, values


def survey(*inputs, path=Path("m.onnx"), **notes):
    return Survey(path, "0", 0, 17, inputs, Graph("m", (), (), (), {}), notes)


def first(*inputs, **notes):
    found = roles.axes_of(survey(*inputs, **notes))
    return {axis.name: (axis.role, axis.first) for axis in found}


def port(*dims, name="x", dtype="float32", **facts):
    return InputPort(name, dtype, dims, **facts)


def test_a_picture_has_batch_and_sides():
    picture = port("N", 3, "x.2", "x.3", readers=("Conv",), channels=3, window=2)
    assert first(picture) == {"N": ("batch", 1), "x.2": ("height", 224), "x.3": ("width", 224)}
    assert first(picture, imgsz="[480, 640]")["x.2"] == ("height", 480)
    assert first(picture, character="a\nb") | {"N": 0} == {
        "N": 0, "x.2": ("height", 48), "x.3": ("width", 320)
    }  # fmt: skip


def test_what_varies_most_is_proposed_first():
    def proposed(*inputs, **notes):
        return [a.name for a in roles.most_varied(roles.axes_of(survey(*inputs, **notes)))]

    line = port("n", 3, "h", "w", readers=("Conv",), channels=3, window=2)
    assert proposed(line, character="a") == ["w", "h", "n"], "a recogniser's height is fixed"
    assert proposed(line) == ["h", "w", "n"]
    ids = port("batch", "sequence", name="input_ids", dtype="int64")
    assert proposed(ids) == ["sequence", "batch"]


def test_colours_may_come_last():
    picture = port("b", "h", "w", 3, window=2)
    assert [role for role, _ in first(picture).values()] == ["batch", "height", "width"]


def test_a_line_of_text_is_as_wide_as_its_height_asks_for():
    assert first(port(1, 1, 64, "image_width", window=2)) == {"image_width": ("width", 416)}
    assert first(port(1, 3, "x.2", 416, window=2)) == {"x.2": ("height", 416)}


def test_channels_come_from_the_first_convolution():
    assert first(port(1, "x.1", 8, 8, channels=5, window=2))["x.1"] == ("channels", 5)


def test_token_ids_have_a_length_of_text():
    ids = port("batch", "sequence", name="input_ids", dtype="int64")
    mask = port("batch", "sequence", name="attention_mask", dtype="int64")
    assert first(ids, mask) == {"batch": ("batch", 1), "sequence": ("text length", 128)}
    unnamed = port("input_ids.0", "input_ids.1", name="input_ids", dtype="int64")
    assert first(unnamed)["input_ids.1"] == ("text length", 128)


def test_sound_has_samples_and_a_state_a_batch():
    sound = port("input.0", "input.1", name="input", readers=("Conv",), window=1)
    state = port(2, "state.1", 128, name="state", readers=("Gather",))
    assert first(sound)["input.1"] == ("samples", 16000)
    assert first(sound, state) == {
        "input.0": ("batch", 1), "input.1": ("samples", 512), "state.1": ("batch", 1)
    }  # fmt: skip


def test_labels_leave_out_what_exporters_make_up():
    made = port("p2o.DynamicDimension.0", "unk__214", "x.2", "width", window=2)
    labels = [axis.label for axis in roles.axes_of(survey(made))]
    assert labels == ["0, no name", "1, no name", "2, no name", "3, width"]


def test_a_whole_number_is_held_constant():
    rate = InputPort("sr", "int64", ())
    found = roles.constants_of(survey(port(1, 4), rate, port(name="scale")))
    assert [(c.name, c.first) for c in found] == [("sr", 16000)]


def test_values_are_drawn_in_shape_and_dtype():
    model = survey(port("n", 3), port("n", dtype="int64", name="ids"), InputPort("sr", "int64", ()))
    arrays = values.drawn(model, {"n": 2}, {"sr": 8000})
    assert arrays["x"].shape == (2, 3) and arrays["x"].dtype == np.float32
    assert arrays["ids"].tolist() == [1, 1] and arrays["sr"] == 8000
    assert values.nbytes(model, {"n": 2}) == 24 + 16 + 8
    with pytest.raises(UserError, match="GiB"):
        values.drawn(model, {"n": 1 << 40}, {})


def test_arrays_are_checked_against_the_file(tmp_path):
    model = survey(port("n", 3), port("n", name="y"))
    good, bad, other = (tmp_path / f"{name}.npz" for name in ("good", "bad", "other"))
    np.savez(good, x=np.ones((4, 3), np.float64), y=np.ones(4, np.float32))
    arrays = values.read_npz(good, model)
    assert arrays["x"].dtype == np.float32 and values.sizes_of(arrays, model) == {"n": 4}
    np.savez(bad, x=np.ones((4, 3), np.int64))
    with pytest.raises(UserError, match="holds int64, the model wants float32"):
        values.read_npz(bad, model)
    np.savez(other, z=np.ones(3))
    with pytest.raises(UserError, match="has z, but no x, y"):
        values.read_npz(other, model)
    np.savez(other, x=np.ones((4, 3)), y=np.ones(5))
    with pytest.raises(UserError, match="disagree on n: 4 and 5"):
        values.sizes_of(values.read_npz(other, model), model)
    other.write_bytes(b"no zip")
    with pytest.raises(UserError, match=r"not an \.npz file"):
        values.read_npz(other, model)


def test_text_fills_ids_mask_and_positions(tmp_path):
    names = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
    ports = [port(1, "s", name=name, dtype="int64") for name in names]
    arrays = texts.fed_with_text(survey(*ports), {"s": 4}, [7, 8])
    assert {n: a.tolist()[0] for n, a in arrays.items()} == {
        "input_ids": [7, 8, 0, 0], "attention_mask": [1, 1, 0, 0],
        "token_type_ids": [0, 0, 0, 0], "position_ids": [0, 1, 2, 3],
    }  # fmt: skip
    (tmp_path / "onnx").mkdir()
    tokenizer = tmp_path / "tokenizer.json"
    tokenizer.write_text("{}")
    assert texts.tokenizer_beside(tmp_path / "onnx" / "model.onnx") == tokenizer
    with pytest.raises(UserError, match="tokenizer"):
        texts.token_ids(tokenizer, "words")


def test_lengths_of_texts_are_without_padding(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, "a"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_padding()
    made.save(str(tmp_path / "tokenizer.json"))
    assert texts.lengths_of(tmp_path / "tokenizer.json", ["a", "a b b"]) == [1, 3]


def test_inputs_of_an_open_model_are_drawn_filled_and_read(tmp_path):
    x = edited.port_of(TensorSpec("x", (2, 3), "f32"))
    ids = edited.port_of(TensorSpec("ids", (1, 4), "i64"))
    assert (edited.random(x, 1) == edited.random(x, 1)).all()
    assert (edited.random(x, 1) != edited.random(x, 2)).any()
    assert set(edited.random(ids, 0).ravel()) <= {0, 1}
    assert edited.filled(ids, 7).tolist() == [[7, 7, 7, 7]]
    with pytest.raises(UserError, match=r"1\.5 is none"):
        edited.filled(ids, 1.5)
    np.savez(tmp_path / "one.npz", other=np.ones((2, 3)))
    assert edited.from_file(tmp_path / "one.npz", x).dtype == np.float32
    np.save(tmp_path / "nan.npy", np.full((2, 3), np.nan, np.float32))
    with pytest.raises(UserError, match="not finite"):
        edited.from_file(tmp_path / "nan.npy", x)
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(UserError, match="holds no arrays"):
        edited.from_file(tmp_path / "text.npy", x)
    assert edited.unfit([TensorSpec("x", (2, 3), "f32")], {}) == "x"
    assert edited.described(np.array([-1.0, 2.0])) == "-1 to 2, mean 0.5"


def test_a_file_is_fed_with_what_is_given_and_draws_the_rest():
    found = survey(
        port("n", 2), port("m", name="mask", dtype="int64"), port(name="sr", dtype="int64")
    )
    arrays = values.fed(found, GivenShapes({"n": 3}), {"mask": np.zeros(5, np.int64)})
    assert arrays["x"].shape == (3, 2) and not arrays["mask"].any() and arrays["sr"] == 16000
    shaped = values.fed(found, GivenShapes(shapes={"x": (4, 2), "mask": (6,)}), None)
    assert shaped["x"].shape == (4, 2) and shaped["mask"].shape == (6,)
    with pytest.raises(UserError, match=r"'n' of m\.onnx is open"):
        values.fed(found, GivenShapes({"m": 1}), None)
