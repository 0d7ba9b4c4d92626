"""Writes a folder that runs the loops of loops.wasm on a GPU machine without a browser or network.

    python benchmarks/offload/bundle.py FOLDER --webgpu node_modules/webgpu --node PATH
    bash FOLDER/go.sh [NAME...] > result.json

The folder holds Node, Dawn's binding for it (npm `webgpu`), the page's runtime and the cases: all
of them, or those whose names begin with one of the NAMEs. Names that end in `f16` are the lab's.
Loaders of Vulkan (`libvulkan1`) have to be installed there.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import shutil
from pathlib import Path

from offload_campaign import right_nests

from nnjit_studio.foreign_wasm.offload.job import LAB, nests_of, offloaded
from nnjit_studio.foreign_wasm.offload.plan import in_f16
from nnjit_studio.wasm_file.module import read

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLANTED = ROOT / "tests/offload/planted"
CALLS, SLOW_FROM, SLOW_CALLS = 10, 1024, 2
LAB_FROM = 256
GO = """#!/usr/bin/env bash
cd "$(dirname "$0")"
for f in node node_modules/webgpu/dist/linux-x64.dawn.node; do [ -f $f ] || xz -dk $f.xz; done
chmod +x node
export DAWN="${DAWN-enable-dawn-features=allow_unsafe_apis,vulkan_enable_f16_on_nvidia}"
exec ./node --experimental-wasm-jspi benchmarks/offload/run.mjs "$@"
"""


def cases() -> list[dict[str, object]]:
    """The cases of the page's runtime (resources/bench/offload/case.js)."""
    module = read((HERE / "loops.wasm").read_bytes())
    rows: list[dict[str, object]] = []
    for name in sorted(set(module.names.values()) - {"memory"}):
        kind, size = re.fullmatch(r"([a-z]+)(\d+)", name).groups()  # type: ignore[union-attr]
        n = int(size)
        sizes = {"gemm": (n * n,) * 3, "axpy": (n, n), "gemv": (n * n, n, n)}[kind]
        offset, fill = 65536, []
        for floats in sizes:
            fill.append((offset, floats))
            offset += 4 * floats
        args = [o for o, _ in fill]
        slow = SLOW_CALLS if kind == "gemm" and n >= SLOW_FROM else 0
        row = {"name": name, "entry": name, "fill": fill, "calls": CALLS, "slow": slow}
        row |= {"args": [0.5, *args] if kind == "axpy" else args, "lose": -1}
        rows.append(row | {"always": True})
        if name == "gemm2048":
            rows.append(row | {"name": "gemm2048 by price", "always": False})
        if name == "gemm1024":
            rows.append(row | {"name": "gemm1024, device lost before call 5", "lose": 5})
        if kind == "gemm" and n >= LAB_FROM:
            rows.append(row | {"name": name + LAB, "always": True, "plan": "loops.f16.json"})
    files = {"wasm": "loops.wasm", "swapped": "loops.swapped.wasm", "plan": "loops.json"}
    return sorted([files | r for r in rows], key=lambda r: (str(r["name"])[:4], r["fill"][0][1]))  # type: ignore[index]


def planted(files: Path) -> list[dict[str, object]]:
    """The planted loops, each alone: whether the guard takes right kernels on that device."""
    rows: list[dict[str, object]] = []
    modules = [path.read_bytes() for path in sorted(PLANTED.glob("*.wasm"))]
    for i, right in enumerate(right_nests(modules)):
        case, name = right.case(), f"planted{i}"
        (files / f"{name}.wasm").write_bytes(case.module)
        (files / f"{name}.swapped.wasm").write_bytes(right.data)
        (files / f"{name}.json").write_text(json.dumps(right.plan))
        rows.append({
            "name": f"{name} {case.name}", "wasm": f"{name}.wasm", "plan": f"{name}.json",
            "swapped": f"{name}.swapped.wasm", "entry": case.entry, "args": [], "lose": -1,
            "fill": case.regions, "calls": case.calls, "always": True, "varied": True,
        })  # fmt: skip
    return rows


def write(folder: Path, webgpu: Path, node: Path) -> None:
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    shutil.copytree(
        ROOT / "resources", folder / "resources", dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    (folder / "benchmarks/offload").mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "run.mjs", folder / "benchmarks/offload")
    (folder / "package.json").write_text('{"type": "module"}')
    binding = folder / "node_modules/webgpu/dist"
    binding.mkdir(parents=True, exist_ok=True)
    for name in ("index.js", "package.json"):
        shutil.copy(webgpu / name, folder / "node_modules/webgpu")
    dawn = next((webgpu / "dist").glob("linux-x64*/*.node"), None) or next(
        (webgpu / "dist").glob("linux-x64*.node")
    )
    _pack(dawn, folder / "node_modules/webgpu" / dawn.relative_to(webgpu))
    _pack(node, folder / "node")
    (folder / "go.sh").write_text(GO.replace("node_modules/webgpu/dist/linux-x64.dawn.node", str(
        Path("node_modules/webgpu") / dawn.relative_to(webgpu))))  # fmt: skip
    module = read((HERE / "loops.wasm").read_bytes())
    nests = nests_of(module, {})
    swapped, plan = offloaded(module, nests)
    _, lab = offloaded(module, [in_f16(nest) or nest for nest in nests])
    (files / "loops.wasm").write_bytes(module.data)
    (files / "loops.swapped.wasm").write_bytes(swapped)
    (files / "loops.json").write_text(plan)
    (files / "loops.f16.json").write_text(lab)
    every = [*cases(), *planted(files)]
    (files / "job.json").write_text(json.dumps({"mode": "jspi", "cases": every}))


def _pack(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    packed = to.with_name(to.name + ".xz")
    if not packed.exists():
        packed.write_bytes(lzma.compress(source.read_bytes(), preset=3))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--webgpu", type=Path, required=True)
    parser.add_argument("--node", type=Path, required=True)
    given = parser.parse_args()
    write(given.folder, given.webgpu, given.node)
