"""Attention is one call at any size, of a GPU as in Wasm, where that has a kernel for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.compiler.any_size.imports import AnySize, import_any
from nnjit_studio.model.open_plan import OpenPlan
from nnjit_studio.records import GPU_TIERS

node, port = helper.make_node, helper.make_tensor_value_info


def made(folder: Path, depth: int) -> AnySize:
    """Two attentions of one head in a row, over any number of rows."""
    names = [f"{i}{layer}" for layer in range(2) for i in "qkv"]
    weights = [numpy_helper.from_array(np.ones((depth, depth), np.float32), n) for n in names]
    nodes, x = [], "x"
    for i in range(2):
        nodes += [node("MatMul", [x, f"{n}{i}"], [f"{n}p{i}"]) for n in "qkv"]
        nodes += [
            node("Transpose", [f"kp{i}"], [f"t{i}"], perm=[0, 2, 1]),
            node("MatMul", [f"qp{i}", f"t{i}"], [f"s{i}"]),
            node("Softmax", [f"s{i}"], [f"a{i}"], axis=-1),
            node("MatMul", [f"a{i}", f"vp{i}"], [f"y{i}"]),
        ]
        x = f"y{i}"
    ports = ([port(p, TensorProto.FLOAT, [1, "n", depth])] for p in ("x", x))
    graph = helper.make_graph(nodes, "two", *ports, weights)
    file = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), file)
    # One row is no softmax of its template: other sizes tell what a GPU runs.
    one = {"x": np.ones((1, 1, depth), np.float32)}
    found = import_any(file, folder / "w.bin", one, webgpu=True)
    assert found is not None
    return found


def test_attention_is_one_call_of_one_kernel(tmp_path: Path) -> None:
    found = made(tmp_path, 16)
    plan = found.plan
    assert "attention:0" in plan.kernels
    kernels = {k.workload for k in found.kernels if k.tier == GPU_TIERS[0]}
    assert kernels == {step.workload for step in plan.on_gpu if step.op == "call"}
    mine, others = (
        [step for step in steps if step.workload == "attention:0"]
        for steps in (plan.steps, plan.on_gpu)
    )
    assert len(mine) == len(others) == 2 and len(plan.on_gpu) == len(plan.steps)
    for step, other in zip(mine, others, strict=True):
        # Wasm has a place for a few rows of scores, behind names of what is not in memory.
        assert step.args[: len(other.args)] == other.args
        scores = plan.buffers[step.args[-1]].nbytes
        assert 0 < scores.at({"n": 500}) < 500 * 500 * 4 / 2
    # What was between the three calls takes no memory.
    used = {b for steps in (plan.steps, plan.on_gpu) for s in steps for b in s.args}
    left = [b for i, b in enumerate(plan.buffers) if i not in used]
    assert len(left) >= 4 and all(b.nbytes.constant == 0 for b in left)
    assert OpenPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@pytest.mark.parametrize("depth", [8, 128])
def test_heads_that_one_kernel_does_not_suit_stay_three_calls(tmp_path: Path, depth: int) -> None:
    """Narrow ones have no template; of wide ones one is slower over many keys."""
    found = made(tmp_path, depth)
    assert found.plan.on_gpu == found.plan.steps and "gpu_steps" not in found.plan.to_json()
    for place in ("in Wasm", "on WebGPU"):
        told = [note for note in found.notes if f"three kernels {place}" in note]
        assert len(told) == (depth == 128)
