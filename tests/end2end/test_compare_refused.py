"""`nnjit compare` of a model that the importer refuses: the peer alone runs it, and is profiled."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from nnjit_command import SANDBOX, nnjit
from onnx import TensorProto, helper
from verdicts import fake_peer

PEER = """
// As the real one: the console's function is taken when the library is loaded.
const log = console.log.bind(console);
export const env = { wasm: {}, versions: { web: "9.9.0" } };
export class Tensor {
  constructor(type, data, dims) { Object.assign(this, { type, data, dims }); }
  dispose() {}
}
const event = (cat, name, dur, op_name) => log(JSON.stringify({ cat, name, dur, args: { op_name } }) + ",");
export const InferenceSession = {
  create: async (model, { enableProfiling }) => {
    const { wasm } = env.wasm.wasmPaths;
    if (wasm && (await (await fetch(wasm)).text()) !== "turbo") throw new Error("another module");
    if (!(await fetch(model)).ok) throw new Error("no model");
    let runs = 0;
    const run = async ({ x: { data } }) => {
      runs++;
      return { y: new Tensor("float32", data.slice(), [4]) };
    };
    const endProfiling = () => {
      if (!enableProfiling) throw new Error("the profiler is off");
      log("[");
      for (let i = 0; i < runs; i++) {
        event("Node", "echo_kernel_time", wasm ? 1000 : 2000, "SampleOp");
        event("Session", "model_run", 3000);
      }
      log("]");
    };
    return { run, endProfiling, release: () => {} };
  },
};
"""  # noqa: E501


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An operator that native ONNX Runtime has for samples: it hands on what it is given."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy"]
    node = helper.make_node("SampleOp", ["x"], ["y"], "echo", domain="com.microsoft")
    graph = helper.make_graph([node], "g", *[[p] for p in ports])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    path = tmp_path / "echo.onnx"
    onnx.save(helper.make_model(graph, opset_imports=imports), path)
    return path


@pytest.mark.embedded
def test_the_peer_runs_what_we_refuse_with_both_modules(model: Path, tmp_path: Path) -> None:
    peer, module = fake_peer(tmp_path / "peer", PEER), tmp_path / "turbo.wasm"
    module.write_text("turbo")
    options = ("--peer-folder", peer, "--seconds", "1", "--cold", "1", "--json")
    database = ("--database", tmp_path / "kernels.db", *SANDBOX)
    run = nnjit("compare", model, *options, "--runtime", module, *database)
    assert run.returncode == 1, run.stderr
    made = json.loads(run.stdout)
    assert not made["ok"] and "SampleOp (node 'echo') is not supported" in made["absent"]
    assert [row["who"] for row in made["rows"]] == ["ort", "turbo"]
    for row in made["rows"]:
        assert row["ms"]["low"] <= row["ms"]["median"] and row["cold_ms"] > 0, row
        assert row["max_rel_err"] < 1e-5, "against native ONNX Runtime"
    assert made["pairs"] > 0 and made["state"] != "refused"
    assert made["nodes"]["ort"] == [{"name": "echo", "op": "SampleOp", "ms": 2.0}]
    assert made["nodes"]["turbo"] == [{"name": "echo", "op": "SampleOp", "ms": 1.0}]
    assert [node["op"] for node in made["native"]["nodes"]] == ["SampleOp"]
    assert [obstacle["op"] for obstacle in made["obstacles"]] == ["SampleOp"]
    assert made["functions"] or made["functions_problem"]
