"""setup.py finds every package of the tree, under the name that it imports by."""

from __future__ import annotations

import glob
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

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


def test_a_worktree_installs_nothing_into_the_environment_of_another(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "owner").mkdir()
    command = ("make", "-C", str(tmp_path), "-n", "-B", ".venv/ready", "PYTHON=python3")
    (tmp_path / ".venv").symlink_to("owner")
    linked = subprocess.run(command, capture_output=True, text=True)
    assert linked.returncode == 0 and "pip install" not in linked.stdout
    (tmp_path / ".venv").unlink()
    for needed in ("requirements-samples.txt", "requirements-tests.txt", ".ci/system.sh"):
        (tmp_path / needed).parent.mkdir(exist_ok=True)
        (tmp_path / needed).touch()
    owned = subprocess.run(command, capture_output=True, text=True)
    assert owned.returncode == 0 and "pip install" in owned.stdout


def test_every_resource_ships_but_the_types_and_the_npm_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    resources = ROOT / "resources"
    shipped = {
        resources / name
        for pattern in settings["package-data"]["nnjit_studio.resources"]
        for name in glob.glob(pattern, root_dir=resources, recursive=True)
    }
    for path in resources.rglob("*"):
        folder = path.relative_to(resources).parts[0]
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            assert (path in shipped) == (folder not in ("types", "runtime")), path


@pytest.mark.parametrize("room", ["ui", "compiler", "resources"])
def test_a_room_refuses_its_bare_name(room: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", f"import {room}"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 1
    assert f"import nnjit_studio.{room}, not {room}" in result.stderr
