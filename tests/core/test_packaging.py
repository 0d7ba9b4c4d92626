"""The package list is by hand, so a test compares it with the tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[2]


def test_every_package_on_disk_is_listed() -> None:
    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    found = set()
    for room in ("nnjit_studio", "compiler", "ui", "resources"):
        for init in (ROOT / room).rglob("__init__.py"):
            dotted = ".".join(init.parent.relative_to(ROOT).parts)
            found.add(dotted if room == "nnjit_studio" else f"nnjit_studio.{dotted}")
    assert listed == found


@pytest.mark.parametrize("room", ["ui", "compiler", "resources"])
def test_a_room_refuses_its_bare_name(room: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", f"import {room}"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert f"import nnjit_studio.{room}, not {room}" in result.stderr
