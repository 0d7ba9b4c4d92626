"""The examples of docs/web.md, as a reader builds them: npm package, plain page, Vite, React."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import zipfile
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest
from guide_models import likeness, minilm_like, write_tokenizer
from nnjit_command import LONG_S, SANDBOX, nnjit_here
from static_server import serve

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.support.programs import find_program

ROOT = Path(__file__).parents[3]
EXAMPLE = re.compile(r"^```\w+ (\S+/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REPORT = """
const send = async (body) => {
  await fetch("/", { method: "POST", body: JSON.stringify(body) });
  if (NEXT) location.href = NEXT;
};
addEventListener("error", (e) => send(`error: ${e.message}`));
addEventListener("unhandledrejection", (e) => send(`error: ${e.reason}`));
const look = setInterval(() => {
  const text = document.getElementById("result")?.textContent ?? "";
  if (!/ (on wasm|of \\d (inputs|texts))$/.test(text)) return;
  clearInterval(look);
  send(text);
}, 50);
"""
EXPECTED = {
    "plain": "1,128,8 on wasm",
    "detector": "text from N, N to N, N on wasm",
    "tuned": "1,128,8 on wasm",
    "vite": "1,128,8 on wasm",
    "react": "1,128,8 on wasm",
    "ort": "1,128,8 of 3 inputs",
    "transformers": f"{likeness('a cat sleeps', 'a dog barks'):.3f} of 2 texts",
}
BUNDLES = {
    "plain": ("small", "minilm"),
    "detector": ("detector", "detector"),
    "tuned": ("small", "minilm"),
    "vite": ("small", "minilm"),
    "react": ("small", "minilm"),
    "ort": ("small", "minilm"),
    "transformers": ("open", "minilm/onnx/model"),
}
"""Which bundle an example has, and where below its models it lies."""
UNBUILT = ("plain", "detector", "tuned")
DETECTOR = "models/ch_PP-OCRv4_det_infer.onnx"
WRITTEN = (80, 135, 250, 190)
"""Where the detector's page writes, about: left, top, right, bottom."""
LINKED = ("vite", "react", "react-dom", "scheduler", "onnxruntime-common")


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
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the npm package was installed, as every example has it."""
    out, folder = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("installed")
    run("node", ".ci/sdk.mjs", out, cwd=ROOT)
    (packed,) = out.glob("*.tgz")
    (folder / "package.json").write_text('{ "type": "module" }')
    run("npm", "install", "--offline", "--no-audit", "--no-fund", packed, cwd=folder)
    return folder


def export(model: Path, bundle: Path, *options: object) -> Path:
    exported = nnjit_here("export", model, "-o", bundle, *options)
    assert exported.returncode == 0, exported.stderr
    return bundle


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One with the inputs of MiniLM, one for texts of any number and length; a detector."""
    folder = tmp_path_factory.mktemp("bundles")
    onnx.save(minilm_like(), folder / "small.onnx")
    onnx.save(minilm_like(("batch", "sequence")), folder / "open.onnx")
    found = find_spec("rapidocr_onnxruntime")
    assert found is not None and found.submodule_search_locations
    sizes = [f"--dim=p2o.DynamicDimension.{i}={size}" for i, size in enumerate((1, 320, 320))]
    return {
        "small": export(folder / "small.onnx", folder / "small.zip", "--candidates", 4),
        "open": export(folder / "open.onnx", folder / "open.zip"),
        "detector": export(
            Path(found.submodule_search_locations[0]) / DETECTOR, folder / "detector.zip", *sizes
        ),
    }


def place(example: str, bundles: dict[str, Path], models: Path) -> None:
    """What the guide unpacks and copies."""
    name, where = BUNDLES[example]
    with zipfile.ZipFile(bundles[name]) as archive:
        archive.extractall(models / where)
    if name == "open":
        write_tokenizer(models / "minilm")


def build(example: str, installed: Path, folder: Path) -> Path:
    """The files of an example with what the guide installs; the folder to serve."""
    examples = dict(EXAMPLE.findall((ROOT / "docs/web.md").read_text()))
    mine = {name: text for name, text in examples.items() if name.startswith(f"{example}/")}
    shared = {} if example in UNBUILT else {"vite.config.js": examples["vite/vite.config.js"]}
    for name, text in {**shared, **{n.split("/", 1)[1]: t for n, t in mine.items()}}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    shutil.copytree(installed, folder, dirs_exist_ok=True)
    if example in UNBUILT:
        return folder
    for name in LINKED:
        (folder / "node_modules" / name).symlink_to(ROOT / "node_modules" / name)
    if example == "transformers":  # a link would look for what it imports in this repository
        unused = shutil.ignore_patterns("types", "src", "*.cjs", "*.node*", "*.min.js")
        theirs = ROOT / "node_modules/@huggingface"
        shutil.copytree(theirs, folder / "node_modules/@huggingface", ignore=unused)
    run("node", ROOT / "node_modules/vite/bin/vite.js", "build", cwd=folder)
    return folder / "dist"


@pytest.fixture(scope="module")
def sites(
    installed: Path, bundles: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The folder to serve, by example."""
    built = {}
    for example in EXPECTED:
        built[example] = build(example, installed, tmp_path_factory.mktemp(example))
        place(example, bundles, built[example] / "models")
        page = built[example] / "index.html"
        page.write_text(page.read_text() + '<script type="module" src="/report.js"></script>')
    return built


@pytest.mark.parametrize("name", ["chromium", "firefox"])
def test_the_examples_of_the_guide_run(name: str, sites: dict[str, Path]) -> None:
    """One after the other in one window: each page leads to the next."""
    found = [browser for browser in browsers.find_all() if browser.name == name]
    if not found:
        pytest.skip(f"{name} is not installed")
    with contextlib.ExitStack() as stack:
        served = {
            example: stack.enter_context(serve(site, isolated=example not in UNBUILT))
            for example, site in sites.items()
        }
        pages = [f"{url}/index.html" for url, _ in served.values()]
        for site, following in zip(sites.values(), [*pages[1:], None], strict=True):
            (site / "report.js").write_text(f"const NEXT = {json.dumps(following)};{REPORT}")
        stack.enter_context(browsers.launch(found[0], pages[0], bool(SANDBOX)))
        told = {example: reports.get(timeout=LONG_S) for example, (_, reports) in served.items()}
    found_at = [int(number) for number in re.findall(r"\d+", told["detector"])]
    told["detector"] = re.sub(r"\d+", "N", told["detector"])
    assert told == EXPECTED
    assert all(abs(a - b) < 25 for a, b in zip(found_at, WRITTEN, strict=True)), found_at


def test_the_guide_shows_no_other_code() -> None:
    """Every block of code in the guide is one that the tests run, or a shell line."""
    text = (ROOT / "docs/web.md").read_text()
    fences = re.findall(r"^```(\w+)(.*)$", text, re.MULTILINE)
    assert len(fences) > 8
    assert all(name.strip() or language == "sh" for language, name in fences)
