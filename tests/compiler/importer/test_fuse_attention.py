"""Attention as one call of a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.built import BuiltModel
from nnjit_studio.compiler.importer.program.fuse_attention import pays
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.compiler.recognize.attention import recognize_attention
from nnjit_studio.model import Node
from nnjit_studio.samples.builder import Builder
from nnjit_studio.samples.encoders import Sizes, distilbert

pytestmark = pytest.mark.filterwarnings("ignore:Renaming name")

LAYERS = 2
QUERIES = 9
Ways = dict[str, str]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder()
    sizes = Sizes(LAYERS, heads=2, width=32, inner=40, vocabulary=61, positions=32)
    distilbert(builder, sizes, QUERIES)
    return builder.save(tmp_path_factory.mktemp("fused") / "m.onnx", "m")


def imported(path: Path, ways: Ways | None = None) -> BuiltModel:
    return import_model(path, path.parent / "weights.bin", ways=ways or {})


def nodes_of(model: BuiltModel, kind: str) -> list[Node]:
    return [n for n in model.graph.nodes if n.workload.startswith(kind)]


def test_three_steps_become_one_that_knows_their_nodes(path: Path) -> None:
    fused, apart = imported(path), imported(path, {"fuse_attention": "off"})
    assert len(apart.graph.nodes) - len(fused.graph.nodes) == 2 * LAYERS
    (workload,) = (w for w in fused.workloads if w.kind == "attention")
    assert (workload.dims, workload.uses, workload.tunable) == ((2, 9, 9, 16), LAYERS, True)
    assert workload.flops == 4 * 2 * 9 * 9 * 16
    (choice,) = (c for c in fused.choices if c.name == "fuse_attention")
    assert (choice.value, choice.others) == ("on", ("off",))
    for node, softmax in zip(nodes_of(fused, "attention"), nodes_of(apart, "softmax"), strict=True):
        at = apart.graph.nodes.index(softmax)
        scores, _, values = apart.graph.nodes[at - 1 : at + 2]
        assert node.outputs == values.outputs
        assert {*node.source} == {*scores.source, *softmax.source, *values.source}
        assert not {*softmax.outputs} & fused.graph.tensors.keys()


def test_scores_of_all_queries_are_nowhere_in_memory(path: Path) -> None:
    fused = imported(path)
    (program,) = (p for key, p in fused.programs.items() if key.startswith("attention"))
    virtual = {b.name for b in program.buffers if b.role == "virtual"}
    assert len(virtual) == 6
    (step, *_) = (s for s in fused.plan.steps if s.workload.startswith("attention"))
    given = dict(zip((b.name for b in program.buffers), step.args, strict=True))
    assert {given[name] for name in virtual} == {given["out0"]}


def test_wide_heads_over_many_keys_stay_three_steps() -> None:
    shapes = [(2, 9, 300, 128), (2, 9, 200, 128), (2, 9, 300, 96), (2, 1, 300, 128)]
    found = [recognize_attention(attention(*shape)) for shape in shapes]
    assert [a is not None and pays(a) for a in found] == [False, True, True, True]


@pytest.mark.parametrize("between", ["/Softmax", "/MatMul"])
def test_what_somebody_else_reads_keeps_its_steps(path: Path, between: str, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(path)
    softmax = next(n for n in model.graph.node if n.op_type == "Softmax")
    name = softmax.output[0] if between == "/Softmax" else softmax.input[0]
    model.graph.output.append(onnx.helper.make_tensor_value_info(name, 1, (1, 2, QUERIES, QUERIES)))
    asked = tmp_path / "m.onnx"
    onnx.save(model, asked)
    uses = {w.kind: w.uses for w in imported(asked).workloads}
    assert uses["attention"] == LAYERS - 1
