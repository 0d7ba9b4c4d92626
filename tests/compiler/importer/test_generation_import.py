from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import grouped_models
import numpy as np
import onnx
import pytest
from decoder_models import HEADS, LAYERS, POSITIONS, VOCABULARY, decoder, merged, without_past
from grouped_models import Sizes, grouped
from onnx import helper

from nnjit_studio.compiler.importer.buffers import Weights
from nnjit_studio.compiler.importer.generation import BuiltGeneration, import_generation
from nnjit_studio.compiler.importer.onnx.packed_weights import reshape_tables
from nnjit_studio.compiler.oracle.native_decode import NativeDecoder
from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.quantised import Quantised
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import ModelError
from nnjit_studio.model import GenerationRequest, Plan
from nnjit_studio.samples.zoo import write_model

# TVM's own names have no dots; the labels that we show keep them.
pytestmark = pytest.mark.filterwarnings("ignore:Renaming name")


def imported(path: Path, folder: Path, **request: object) -> BuiltGeneration:
    return import_generation(path, folder / "weights.bin", GenerationRequest(**request))


def appends(plan: Plan) -> list[tuple[bool, int, int]]:
    return [(s.append.columns, s.append.rows, s.append.capacity) for s in plan.steps if s.append]


def test_one_decoder_becomes_two_plans_over_one_cache(tmp_path: Path) -> None:
    built = imported(decoder(tmp_path / "m.onnx"), tmp_path, rows=8)
    facts, decode, prefill = built.facts, built.decode.plan, built.prefill.plan
    assert (facts.capacity, facts.rows, facts.slot, facts.last) == (
        POSITIONS, 8, "cache_slot", "cache_last",
    )  # fmt: skip
    assert {p.spec.name: p.spec.shape for p in decode.inputs} == {
        "input_ids": (1, 1),
        "attention_mask": (1, POSITIONS),
        "position_ids": (1, 1),
        "cache_slot": (1,),
    }
    # Keys are kept as attention reads them, transposed; nothing of the past is copied.
    assert appends(decode) == [(True, 1, POSITIONS), (False, 1, POSITIONS)] * LAYERS
    assert appends(prefill) == [(True, 8, POSITIONS), (False, 8, POSITIONS)] * LAYERS
    assert not any("transpose:" in s.workload and f"x{POSITIONS}" in s.workload
                   for s in decode.steps)  # fmt: skip
    # Only the last row meets the vocabulary.
    assert [p.spec.shape for p in (*decode.outputs, *prefill.outputs)] == [(1, 1, VOCABULARY)] * 2


def test_the_plans_share_weights_and_state(tmp_path: Path) -> None:
    built = imported(decoder(tmp_path / "m.onnx"), tmp_path, rows=8, capacity=20)
    decode, prefill = built.decode.plan, built.prefill.plan
    nbytes = (tmp_path / "weights.bin").stat().st_size
    assert decode.weights_bytes == prefill.weights_bytes == nbytes

    def places(plan: Plan, region: str) -> set[tuple[int, int]]:
        return {(b.offset, b.nbytes) for b in plan.buffers if b.region == region}

    assert places(decode, "state") == places(prefill, "state")
    packed = {b.offset for b in decode.buffers if b.pack}
    assert packed == {b.offset for b in prefill.buffers if b.pack}
    rows, width = 20, 8
    assert decode.state_bytes == prefill.state_bytes == 2 * LAYERS * HEADS * rows * width * 4


def test_a_plan_with_state_survives_json(tmp_path: Path) -> None:
    plan = imported(decoder(tmp_path / "m.onnx"), tmp_path, rows=1).decode.plan
    assert plan.to_json()["version"] == 2
    assert Plan.from_json(plan.to_json()) == plan


def test_fixed_decoder_with_and_without_a_prefill_of_its_own(tmp_path: Path) -> None:
    step = write_model("gpt2-decode", tmp_path / "step.onnx", 12, small=True)
    alone = imported(step, tmp_path)
    assert (alone.facts.capacity, alone.facts.rows, alone.prefill) == (12, 0, None)
    prompt = write_model("gpt2-prefill", tmp_path / "prompt.onnx", 5, small=True)
    both = imported(step, tmp_path, prefill=str(prompt))
    assert (both.facts.rows, both.facts.last) == (5, "cache_last")
    assert appends(both.prefill.plan) == [(True, 5, 12), (False, 5, 12)] * 2
    with pytest.raises(ModelError, match="past has 11 tokens, so its cache holds 12"):
        imported(step, tmp_path, capacity=20)
    long = write_model("gpt2-prefill", tmp_path / "long.onnx", 13, small=True)
    with pytest.raises(ModelError, match="1 x 2 to 1 x 12 tokens"):
        imported(step, tmp_path, prefill=str(long))
    with pytest.raises(ModelError, match="of the prefill model plays no known part"):
        imported(step, tmp_path, prefill=str(step))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": False}, "no input 'position_ids' and does not count its mask"),
        ({"mask": False}, "no input 'attention_mask'"),
        ({"join": 1}, "no past keys and values"),
    ],
)
def test_a_decoder_that_lacks_a_part_is_refused_by_its_name(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        imported(decoder(tmp_path / "m.onnx", **change), tmp_path)


def test_unknown_inputs_and_impossible_sizes_are_refused(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx")
    with pytest.raises(ModelError, match=f"cache of {POSITIONS + 1} slots does not fit"):
        imported(path, tmp_path, capacity=POSITIONS + 1)
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("extra", 1, [1]))
    onnx.save(model, path)
    with pytest.raises(ModelError, match="'extra' plays no known part"):
        imported(path, tmp_path)


def test_no_decoder_at_all(tmp_path: Path) -> None:
    path = write_model("distilbert", tmp_path / "m.onnx", 9, small=True)
    with pytest.raises(ModelError, match="no past keys and values"):
        imported(path, tmp_path)


def test_positions_may_come_from_the_mask(tmp_path: Path) -> None:
    path = decoder(tmp_path / "m.onnx", positions=False, counted=True)
    built = imported(path, tmp_path, rows=1)
    assert (built.facts.positions, built.facts.capacity) == ("", POSITIONS)
    assert "position_ids" not in {p.spec.name for p in built.decode.plan.inputs}


def test_native_decoders_of_open_and_of_fixed_past_agree(tmp_path: Path) -> None:
    """The same network (weights go by name) with a past that grows, and in fixed slots."""
    import onnxruntime

    path = write_model("gpt2-decode", tmp_path / "step.onnx", 9, small=True)
    whole = write_model("gpt2", tmp_path / "whole.onnx", 9, small=True)
    text = [3, 1, 4, 1, 5, 9, 2, 6, 5]
    native = NativeDecoder(path, text[:4])
    choices = native.compare(text[4:])
    logits = onnxruntime.InferenceSession(str(whole)).run(None, {"input_ids": [text]})[0][0]
    assert [c.id for c in choices] == [int(row.argmax()) for row in logits[3:8]]
    deficits = [row.max() - row[t] for row, t in zip(logits[3:8], text[4:], strict=True)]
    np.testing.assert_allclose([c.deficit for c in choices], deficits, atol=1e-4)


def test_equal_weights_of_two_plans_have_one_place_each(tmp_path: Path) -> None:
    ones, twos = np.ones((4, 8), np.float32), np.full((4, 8), 2, np.float32)
    store = Weights(tmp_path / "w.bin")
    first = [
        store.place(ones, 256, (4, 8)),
        store.place(ones, 256, (4, 8)),
        store.place(twos, 128, None),
    ]
    assert len(set(first)) == 3, "kernels of one plan may want one weight in two layouts"
    store.finish_plan(more=True)
    assert [store.place(ones, 256, (4, 8)) for _ in range(2)] == first[:2]
    assert store.place(twos, 128, (4, 8)) not in first, "its panels have no room there"
    assert store.place(ones, 256, (4, 8)) not in first
    store.finish_plan()
    data = np.fromfile(tmp_path / "w.bin", np.float32)
    assert data.nbytes == store.nbytes
    assert (data[first[2] // 4 :][:32] == 2).all()


@pytest.mark.parametrize("bits", [0, 4])
def test_grouped_attention_becomes_three_plans_over_one_cache(tmp_path: Path, bits: int) -> None:
    built = imported(grouped(tmp_path / "m.onnx", bits, half=bits > 0), tmp_path, rows=8)
    facts, extend = built.facts, built.extend.plan
    assert (facts.capacity, facts.rows, facts.extends, facts.positions) == (
        grouped_models.POSITIONS, 8, True, "position_ids",
    )  # fmt: skip
    for built_plan, rows in ((built.decode, 1), (built.prefill, 8), (built.extend, 8)):
        plan = built_plan.plan
        assert appends(plan) == [
            (True, rows, facts.capacity), (False, rows, facts.capacity),
        ] * grouped_models.LAYERS  # fmt: skip
        assert plan.outputs[0].spec.shape == (1, 1, grouped_models.VOCABULARY)
        assert plan.state_bytes == built.decode.plan.state_bytes
    sizes = {p.spec.name: p.spec.shape for p in extend.inputs}
    assert sizes["attention_mask"] == (1, facts.capacity)
    # Heads share keys and values: the cache has them once.
    width = grouped_models.SHARED * grouped_models.DEPTH
    assert extend.state_bytes == 2 * grouped_models.LAYERS * facts.capacity * width * 4


@pytest.mark.parametrize("shared", [2, 4])
def test_a_cache_in_f16_is_read_as_it_is(tmp_path: Path, shared: int) -> None:
    sizes = Sizes(shared=shared)
    half = grouped(tmp_path / "half.onnx", 4, half=True, sizes=sizes)
    built = imported(half, tmp_path, rows=8, half_cache=True)
    kept = built.facts.capacity * shared * grouped_models.DEPTH
    for part in (built.decode, built.prefill, built.extend):
        assert {s.append.nbytes for s in part.plan.steps if s.append} == {2}
        assert part.plan.state_bytes == 2 * grouped_models.LAYERS * kept * 2
    plan = built.decode.plan
    caches = {s.args[1] for s in plan.steps if s.append}
    readers = [s for s in plan.steps if s.op == "call" and caches & {*s.args}]
    for step in readers:
        subject = subject_of(built.decode.programs[step.workload])
        assert isinstance(subject, (Attention, Contraction)), "nothing widens a cache by itself"
    turned = [s.workload for s in plan.steps if "concatenate_multiply_multiply_add" in s.workload]
    assert len(turned) == grouped_models.LAYERS, "new rows of the cache are made with the queries"


@pytest.mark.parametrize(("half", "capacity"), [(False, 128), (True, 127)])
def test_a_cache_of_a_file_in_f32_or_of_odd_slots_is_f32(
    tmp_path: Path, half: bool, capacity: int
) -> None:
    model = grouped(tmp_path / "m.onnx", 4, half=half)
    built = imported(model, tmp_path, rows=1, half_cache=True, capacity=capacity)
    assert {s.append.nbytes for s in built.decode.plan.steps if s.append} == {4}


def test_a_norm_and_a_rotation_are_one_kernel_each(tmp_path: Path) -> None:
    built = imported(grouped(tmp_path / "m.onnx", 4, half=True), tmp_path, rows=8)
    for part in (built.decode, built.prefill, built.extend):
        called = [s.workload for s in part.plan.steps if s.op == "call"]
        norms = [w for w in called if "sum_of_squares" in w or "+norm" in w]
        assert len(norms) == 1 + 2 * grouped_models.LAYERS
        assert not [w for w in called if w.startswith("multiply:")], (
            "squares in a kernel of their own"
        )
        assert part is not built.decode or all("matmul_4bit" in w for w in norms)
        turns = [w for w in called if "concatenate_multiply_multiply_add" in w]
        assert len(turns) == grouped_models.LAYERS
        written = [s.body[0].buffer for w in turns for s in part.programs[w].stages]
        assert all(name.startswith("out") for name in written), "no stage waits for another"


@pytest.mark.parametrize("half", [True, False])
def test_scales_that_are_halves_are_stored_once_as_such(tmp_path: Path, half: bool) -> None:
    sizes = Sizes(depth=64, hidden=512, vocabulary=128)
    built = imported(grouped(tmp_path / "m.onnx", 4, half=half, sizes=sizes), tmp_path, rows=8)
    places = set()
    for part in (built.decode, built.prefill, built.extend):
        for step in part.plan.steps:
            subject = subject_of(part.programs[step.workload]) if step.op == "call" else None
            if isinstance(subject, Quantised):
                names = [b.name for b in part.programs[step.workload].buffers]
                at = names.index(subject.scale)
                assert part.programs[step.workload].buffers[at].dtype == ("f16" if half else "f32")
                places.add(part.plan.buffers[step.args[at]].offset)
    assert len(places) == 1 + 4 * grouped_models.LAYERS


def test_queries_keys_and_values_leave_their_product_together(tmp_path: Path) -> None:
    sizes = replace(grouped_models.SMALL, shared=grouped_models.HEADS)
    built = imported(grouped(tmp_path / "m.onnx", 4, half=True, sizes=sizes), tmp_path, rows=8)
    steps = built.decode.plan.steps
    for at, step in enumerate(steps):
        if step.append and step.append.columns:
            made = built.decode.programs[steps[at - 1].workload]
            assert [b.role for b in made.buffers].count("output") == 3


def test_each_plan_of_a_merged_decoder_takes_its_branch(tmp_path: Path) -> None:
    path = merged(tmp_path / "m.onnx")
    built = imported(path, tmp_path, rows=8)
    assert (built.facts.rows, built.facts.capacity, built.extend) == (8, POSITIONS, None)
    plain = imported(decoder(tmp_path / "p.onnx"), tmp_path, rows=8)
    for mine, theirs in ((built.decode, plain.decode), (built.prefill, plain.prefill)):
        assert mine.plan.inputs == theirs.plan.inputs
        assert mine.programs.keys() == theirs.programs.keys()
    text = [3, 1, 4, 1, 5, 9]
    choices = [NativeDecoder(p, text).compare([7, 8]) for p in (path, tmp_path / "p.onnx")]
    assert choices[0] == choices[1]


def test_the_form_without_a_past_lies_next_to_that_with_it(tmp_path: Path) -> None:
    path = decoder(tmp_path / "decoder_with_past_model.onnx")
    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.save(model, path)
    assert imported(path, tmp_path).prefill is None, "made for one token"
    other = onnx.load(decoder(tmp_path / "decoder_model.onnx"))
    onnx.save(without_past(other), tmp_path / "decoder_model.onnx")
    built = imported(path, tmp_path, rows=8)
    assert (built.facts.rows, built.extend) == (8, None)
    assert appends(built.prefill.plan)[0] == (True, 8, POSITIONS)


def test_a_table_that_words_share_with_logits_is_a_constant_of_its_own(tmp_path: Path) -> None:
    """Reshaped from a weight that is too large to be folded, in real files."""
    model = onnx.load(grouped(tmp_path / "m.onnx", 4))
    reshape_tables(model)
    assert not [n for n in model.graph.node if n.op_type == "Reshape"]
    weights = {t.name: t for t in model.graph.initializer}
    (rows,) = (n for n in model.graph.node if n.op_type == "GatherBlockQuantized")
    table, head = weights[rows.input[0]], weights["lm_head.MatMul.weight_Q4"]
    assert list(table.dims) == [grouped_models.VOCABULARY, grouped_models.WIDTH // 2]
    assert table.raw_data == head.raw_data
