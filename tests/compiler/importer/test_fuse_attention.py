"""Attention as one step of the GPU's form of a model; the form of Wasm stays."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.program.fuse_attention import fuse_attention, pays
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.compiler.recognize.attention import recognize_attention
from nnjit_studio.model import PlanStep
from nnjit_studio.samples.builder import Builder
from nnjit_studio.samples.encoders import Sizes, distilbert

pytestmark = pytest.mark.filterwarnings("ignore:Renaming name")

LAYERS = 2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltModel:
    folder = tmp_path_factory.mktemp("fused")
    builder = Builder()
    distilbert(builder, Sizes(LAYERS, heads=2, width=32, inner=40, vocabulary=61, positions=32), 9)
    path = builder.save(folder / "m.onnx", "m")
    return import_model(path, folder / "weights.bin", lambda phase: None)


def calls(model: BuiltModel) -> list[PlanStep]:
    return [step for step in model.plan.steps if step.op == "call"]


def test_three_steps_become_one_over_the_same_buffers(built: BuiltModel) -> None:
    fused = fuse_attention(built)
    assert len(calls(fused)) == len(calls(built)) - 2 * LAYERS
    assert fused.plan == replace(built.plan, steps=fused.plan.steps)
    (workload,) = (w for w in fused.workloads if w.kind == "attention")
    assert (workload.dims, workload.uses, workload.tunable) == ((2, 9, 9, 16), LAYERS, True)
    assert workload.flops == 4 * 2 * 9 * 9 * 16
    assert {s.workload for s in calls(fused)} == {w.key for w in fused.workloads}
    assert fused.programs.keys() == {w.key for w in fused.workloads}
    for step, node in zip(calls(fused), fused.graph.nodes, strict=True):
        buffers = fused.programs[step.workload].buffers
        assert len(step.args) == len(buffers)
        roles = [b.role for b in buffers[: len(node.inputs) + len(node.outputs)]]
        assert roles == ["input"] * len(node.inputs) + ["output"] * len(node.outputs)


def test_the_step_reads_what_its_parts_read_and_knows_their_nodes(built: BuiltModel) -> None:
    fused = fuse_attention(built)
    node = next(n for n in fused.graph.nodes if n.op.startswith("attention"))
    at = next(i for i, n in enumerate(built.graph.nodes) if n.name == node.name)
    scores, softmax, values = built.graph.nodes[at - 2 : at + 1]
    gone = {*scores.outputs, *softmax.outputs}
    assert node.outputs == values.outputs
    assert {*node.inputs} == ({*scores.inputs, *softmax.inputs, *values.inputs} - gone)
    assert {*node.source} == {*scores.source, *softmax.source, *values.source}
    assert not gone & fused.graph.tensors.keys()
    by_name = {node.node: node.args for node in calls(built)}
    step = next(s for s in calls(fused) if s.node == node.name)
    assert step.args[: len(scores.inputs)] == by_name[scores.name][: len(scores.inputs)]
    assert step.args[len(node.inputs)] == by_name[values.name][len(values.inputs)]


def test_wide_heads_over_many_keys_stay_three_steps() -> None:
    shapes = [(2, 9, 300, 128), (2, 9, 200, 128), (2, 9, 300, 96), (2, 1, 300, 128)]
    found = [recognize_attention(attention(*shape)) for shape in shapes]
    assert [a is not None and pays(a) for a in found] == [False, True, True, True]


def test_scores_that_somebody_reads_keep_their_steps(built: BuiltModel) -> None:
    scores = next(n for n in built.graph.nodes if n.op.startswith("softmax")).inputs[0]
    outputs = (*built.graph.outputs, scores)
    asked = replace(built, graph=replace(built.graph, outputs=outputs))
    uses = {w.kind: w.uses for w in fuse_attention(asked).workloads}
    assert uses["attention"] == LAYERS - 1
    plain = replace(built, graph=replace(built.graph, outputs=tuple(built.graph.tensors)))
    assert fuse_attention(plain) is plain
