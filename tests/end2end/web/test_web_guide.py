"""The examples of docs/web.md, as a reader builds them: npm package, plain page, Vite, React."""

from __future__ import annotations

import os
import re
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from nnjit_command import LONG_S, SANDBOX, nnjit
from onnx import TensorProto, helper, numpy_helper
from static_server import serve

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.support.programs import find_program

ROOT = Path(__file__).parents[3]
EXAMPLE = re.compile(r"^```\w+ (\S+/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REPORT = """
const send = (body) => fetch("/", { method: "POST", body: JSON.stringify(body) });
addEventListener("error", (e) => send(`error: ${e.message}`));
addEventListener("unhandledrejection", (e) => send(`error: ${e.reason}`));
const look = setInterval(() => {
  const text = document.getElementById("result")?.textContent ?? "";
  if (!/ (on|of) \\w+( inputs)?$/.test(text)) return;
  clearInterval(look);
  send(text);
}, 50);
"""
UNBUILT = ("plain", "tuned")
TOKENS, WIDTH, WORDS = 128, 8, 50


def minilm_like() -> onnx.ModelProto:
    """The inputs and the output of MiniLM around one table."""
    table = np.arange(WORDS * WIDTH, dtype=np.float32).reshape(WORDS, WIDTH)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["masked"]),
        helper.make_node("MatMul", ["masked", "mixed"], ["last_hidden_state"]),
    ]
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, [1, TOKENS])
        for name in ("input_ids", "attention_mask")
    ]
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [1, TOKENS, WIDTH])
    weights = [
        numpy_helper.from_array(table, "table"),
        numpy_helper.from_array(np.array([2], np.int64), "last"),
        numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32), "mixed"),
    ]
    graph = helper.make_graph(nodes, "minilm", ids, [out], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run(*command: object, cwd: Path) -> None:
    """A program of a web developer, with the project's Node.

    Raises
    ------
    AssertionError
        With what it said, when it fails.
    """
    name, *arguments = map(str, command)
    program = find_program(name)
    assert program is not None, f"{name} is not installed"
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program, *arguments], cwd=cwd, env={**os.environ, "PATH": path},
        capture_output=True, text=True, timeout=LONG_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The npm package, packed."""
    out = tmp_path_factory.mktemp("package")
    run("node", ".ci/sdk.mjs", out, cwd=ROOT)
    (packed,) = out.glob("*.tgz")
    return packed


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    onnx.save(minilm_like(), folder / "minilm.onnx")
    exported = nnjit(
        "export", folder / "minilm.onnx", "-o", folder / "minilm.zip", "--candidates", 4
    )
    assert exported.returncode == 0, exported.stderr
    return folder / "minilm.zip"


def build(example: str, package: Path, bundle: Path, folder: Path) -> Path:
    """The files of an example with what the guide installs; the folder to serve."""
    examples = dict(EXAMPLE.findall((ROOT / "docs/web.md").read_text()))
    mine = {name: text for name, text in examples.items() if name.startswith(f"{example}/")}
    shared = {} if example in UNBUILT else {"vite.config.js": examples["vite/vite.config.js"]}
    for name, text in {**{n.split("/", 1)[1]: t for n, t in mine.items()}, **shared}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "package.json").write_text('{ "type": "module" }')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", package, cwd=folder)
    models = folder / ("models" if example in UNBUILT else "public/models")
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(models / "minilm")
    if example in UNBUILT:
        return folder
    for name in ("vite", "react", "react-dom", "scheduler", "onnxruntime-common"):
        (folder / "node_modules" / name).symlink_to(ROOT / "node_modules" / name)
    run("node", ROOT / "node_modules/vite/bin/vite.js", "build", cwd=folder)
    return folder / "dist"


@pytest.mark.parametrize("example", ["plain", "tuned", "vite", "react", "ort"])
def test_an_example_of_the_guide_runs(
    example: str, package: Path, bundle: Path, tmp_path: Path
) -> None:
    site = build(example, package, bundle, tmp_path)
    (site / "report.js").write_text(REPORT)
    page = site / "index.html"
    page.write_text(page.read_text() + '<script type="module" src="/report.js"></script>')
    expected = "1,128,8 of 2 inputs" if example == "ort" else "1,128,8 on wasm"
    installed = [b for b in browsers.find_all() if b.name in ("chromium", "firefox")]
    assert installed
    for browser in installed:
        with (
            serve(site, isolated=example not in UNBUILT) as (url, reports),
            browsers.launch(browser, f"{url}/index.html", bool(SANDBOX)),
        ):
            assert reports.get(timeout=LONG_S) == expected, browser.name


def test_the_guide_shows_no_other_code() -> None:
    """Every block of code in the guide is one that the tests run, or a shell line."""
    text = (ROOT / "docs/web.md").read_text()
    fences = re.findall(r"^```(\w+)(.*)$", text, re.MULTILINE)
    assert len(fences) > 8
    assert all(name.strip() or language == "sh" for language, name in fences)
