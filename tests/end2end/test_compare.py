"""`nnjit compare` in the embedded engine, with a peer that a test wrote."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from nnjit_command import SANDBOX, json_lines, nnjit
from onnx import TensorProto, helper
from verdicts import fake_peer

from nnjit_studio.verdict.store import last_verdicts

PEER = """
export const env = { wasm: {}, versions: { web: "9.9.0" } };
export class Tensor {
  constructor(type, data, dims) { Object.assign(this, { type, data, dims }); }
  dispose() {}
}
const run = async ({ x }) => ({ "out/y": new Tensor("float32", x.data.map((v) => Math.max(v, 0)), x.dims) });
export const InferenceSession = {
  create: async (model) => {
    if (!(await fetch(model)).ok) throw new Error("no model");
    return { run, release: () => {} };
  },
};
"""  # noqa: E501
REFUSING = PEER.replace("return { run", 'throw new Error("no kernel for Foo"); return { run')


@pytest.fixture
def model(tmp_path: Path) -> Path:
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64]) for name in ("x", "out/y")
    ]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["out/y"])], "g", *[[p] for p in ports]
    )
    path = tmp_path / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def compared(model: Path, peer: Path) -> dict:
    options = ("--peer-folder", peer, "--seconds", "2", "--cold", "1", "--json")
    database = model.with_name("kernels.db")
    (made,) = json_lines(nnjit("compare", model, *options, "--database", database, *SANDBOX))
    return made


@pytest.mark.embedded
def test_both_run_in_turns_and_agree(model: Path, tmp_path: Path) -> None:
    made = compared(model, fake_peer(tmp_path / "peer", PEER))
    theirs, ours = made["rows"]
    assert (theirs["who"], ours["who"]) == ("ort", "untuned"), "nothing was tuned"
    assert ours["max_rel_err"] == 0 and ours["memory_mib"] > 0
    for row in made["rows"]:
        assert 0 < row["ms"]["low"] <= row["ms"]["median"] <= row["ms"]["high"]
        assert row["cold_ms"] > 0
    assert 10_000 < ours["shipped_bytes"] < 200_000
    assert made["pairs"] > 0 and 0 < made["rate"] <= 1
    assert made["versions"] == {"onnxruntime-web": "9.9.0"}
    (kept,) = last_verdicts(tmp_path)
    assert kept.path == str(model) and kept.state == made["state"]


@pytest.mark.embedded
def test_a_model_that_the_peer_refuses_leaves_our_figures(model: Path, tmp_path: Path) -> None:
    made = compared(model, fake_peer(tmp_path / "peer", REFUSING))
    theirs, ours = made["rows"]
    assert made["state"] == "refused" and theirs["problem"] == "no kernel for Foo"
    assert ours["ms"]["median"] > 0 and made["ratio"] == {}


def test_what_cannot_be_compared_is_a_sentence(model: Path, tmp_path: Path) -> None:
    for options, said in (
        (("--peers", "litert"), ".tflite"),
        (("--peer-folder", tmp_path), "not installed"),
    ):
        run = nnjit("compare", model, *options)
        assert run.returncode == 1 and said in run.stderr
