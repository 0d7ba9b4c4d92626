"""A page with a planted busy function, sampled in a real browser."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from wasm_builder import END, nops, op
from wasm_builder import module as build

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.browsers.flags import Browser
from nnjit_studio.engine.devtools.sampling import Sampler, ThreadProfile
from nnjit_studio.errors import ModelError, TargetError, UserError
from nnjit_studio.foreign_wasm.inspection.hotspots.pages import Sampling, sample_page
from nnjit_studio.foreign_wasm.inspection.hotspots.samples import hotspots
from nnjit_studio.foreign_wasm.model_inputs import input_specs, read_model, written
from nnjit_studio.model.feeds import seeded_feeds
from nnjit_studio.model.given_shapes import GivenShapes

NO_SANDBOX = hasattr(os, "geteuid") and os.geteuid() == 0
COUNT_DOWN = (
    b"\0" + op("loop", -64)
    + op("local.get", 1) + op("i32.const", 1) + op("i32.sub") + op("local.tee", 1)
    + op("br_if", 0) + END + END
)  # fmt: skip
PAGE = """<!doctype html><script type="module">
const bytes = await (await fetch("m.wasm")).arrayBuffer();
const { exports } = (await WebAssembly.instantiate(bytes)).instance;
const worker = new Worker("worker.js");
worker.postMessage(bytes);
setInterval(() => { exports.light(0, 1000); exports.busy(0, 10_000_000); }, 5);
</script>"""
WORKER = """onmessage = async ({ data }) => {
  const { exports } = (await WebAssembly.instantiate(data)).instance;
  setInterval(() => exports.busy(0, 10_000_000), 5);
};"""


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every page and worker of the browser at the end of sampling, its own ones too."""
    found: list[dict[str, Any]] = []
    stop = Sampler.stop

    def looked(sampler: Sampler) -> list[ThreadProfile]:
        assert sampler._tools is not None
        found.extend(sampler._tools.call("Target.getTargets", filter=[{}])["targetInfos"])
        return stop(sampler)

    monkeypatch.setattr(Sampler, "stop", looked)
    return found


@pytest.mark.chromium
def test_the_planted_function_has_the_time_of_the_page_and_its_worker(
    tmp_path: Path, targets: list[dict[str, Any]]
) -> None:
    data = build([nops(5), COUNT_DOWN, COUNT_DOWN + b""], {}, {"light": 1, "busy": 2})
    (tmp_path / "m.wasm").write_bytes(data)
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "worker.js").write_text(WORKER)
    how = Sampling(browsers.find("chromium"), NO_SANDBOX, seconds=1.5)
    threads = sample_page(str(tmp_path), how)
    assert {t["type"] for t in targets} == {"page", "tab", "worker"}, "no menus of the browser"
    assert [t.kind for t in threads] == ["page", "worker"]
    assert {code for t in threads for code in t.modules.values()} == {data}
    found = hotspots("chromium", threads)
    assert found.functions[0].index == 2
    assert found.threads == 2
    assert found.functions[0].facts.loops == 1


def test_pages_that_are_not_on_this_machine_are_refused(tmp_path: Path) -> None:
    how = Sampling(Browser("chromium", "chromium", Path("/nowhere")), True)
    for place in ("https://example.com/", "file:///etc/passwd", "nowhere", "javascript:1"):
        with pytest.raises(UserError, match="neither a folder nor an address"):
            sample_page(place, how)
    with pytest.raises(UserError, match=r"no index\.html"):
        sample_page(str(tmp_path), how)


def test_a_browser_without_that_protocol_is_refused() -> None:
    how = Sampling(Browser("firefox", "firefox", Path("/nowhere")), True)
    with pytest.raises(TargetError, match="no profiler"):
        sample_page("http://127.0.0.1:1/", how)


def test_inputs_of_a_model_that_we_do_not_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 8])
    out = helper.make_tensor_value_info("out", TensorProto.INT64, ["batch", 8])
    node_ = helper.make_node("OfSomebody", ["ids"], ["out"], domain="their.own")
    graph = helper.make_graph([node_], "g", [ids], [out])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("their.own", 1)]
    file = tmp_path / "their.onnx"
    file.write_bytes(helper.make_model(graph, opset_imports=imports).SerializeToString())
    monkeypatch.delattr(onnx, "load")  # the program itself reads no model
    ports = read_model(file)
    with pytest.raises(ModelError, match="no file 'absent"):
        read_model(tmp_path / "absent.onnx")
    (spec,) = input_specs(ports, GivenShapes(dims={"batch": 3}))
    assert (spec.shape, spec.dtype) == ((3, 8), "i64")
    (told,) = written(seeded_feeds([spec]), tmp_path)
    assert told == {"name": "ids", "type": "int64", "dims": [3, 8], "file": "input0.bin"}
    assert (tmp_path / "input0.bin").stat().st_size == 3 * 8 * 8
    with pytest.raises(UserError, match="'ids' has the type float16, which is not passed on"):
        written({"ids": np.zeros(2, np.float16)}, tmp_path)
    with pytest.raises(ModelError, match="'batch' of the input 'ids' is open"):
        input_specs(ports, GivenShapes())
