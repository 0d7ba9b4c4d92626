"""setup.py finds every package of the tree, under the name that it imports by."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_every_package_on_disk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, list[str]] = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: given.update(options))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    found = set()
    for room in ("nnjit_studio", "compiler", "ui", "resources"):
        for init in (ROOT / room).rglob("__init__.py"):
            dotted = ".".join(init.parent.relative_to(ROOT).parts)
            found.add(dotted if room == "nnjit_studio" else f"nnjit_studio.{dotted}")
    assert set(given["packages"]) == found


@pytest.mark.parametrize("room", ["ui", "compiler", "resources"])
def test_a_room_refuses_its_bare_name(room: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", f"import {room}"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert f"import nnjit_studio.{room}, not {room}" in result.stderr
