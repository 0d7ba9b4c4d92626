"""The action for CI: its file is valid, and the commands in it exist."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from nnjit_studio.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def action() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def scripts(action: dict[str, Any]) -> list[str]:
    return [step["run"] for step in action["runs"]["steps"] if "run" in step]


def test_the_file_has_what_github_wants(action: dict[str, Any]) -> None:
    assert action["runs"]["using"] == "composite"
    assert {"name", "description", "inputs", "outputs"} <= action.keys()
    for name, given in action["inputs"].items():
        assert given["description"], name
        assert given.get("required") or isinstance(given["default"], str), name
    for step in action["runs"]["steps"]:
        assert ("uses" in step) != ("run" in step and step["shell"] == "bash")
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert used == set(action["inputs"])
    # what a stranger's pull request says must not become a part of a script
    assert not any("${{" in script for script in scripts(action))


def test_its_commands_exist(action: dict[str, Any]) -> None:
    assert isinstance(cli, click.Group)
    found = []
    for script in scripts(action):
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
        limits = " ".join(re.findall(r"limits\+=\((.*)\)", script))
        for line in re.findall(r"^ *nnjit (.*)$", script, re.M):
            words = re.findall(r"[^\s\"]+", line.replace('"${limits[@]}"', limits))
            command = cli.get_command(click.Context(cli), words[0])
            assert command is not None, line
            flags = {flag for p in command.params for flag in p.opts}
            used = {word for word in words if word.startswith("-") and word != "-a"}
            assert used <= flags, line
            found.append((words[0], len(used)))
    assert found == [("export", 2), ("export", 1), ("compare", 5)]


def test_its_steps_end_as_the_commands_do(action: dict[str, Any], tmp_path: Path) -> None:
    fake = tmp_path / "nnjit"
    fake.write_text('#!/bin/bash\necho "$@" >> "$LOG"\necho said\n[ "$1" != compare ] || exit 1\n')
    fake.chmod(0o755)
    (tmp_path / "base.onnx").touch()
    names = ("LOG", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")
    files = {name: str(tmp_path / name.lower()) for name in names}
    given = {
        "MODEL": "m.onnx",
        "BASE": str(tmp_path / "base.onnx"),
        "NEW": "n.zip",
        "SLOWER": "1.1",
    }
    given |= {"SLOWER": "1.1", "BUDGET": "", "GROWTH": "", "ERROR": "0.1", "SECONDS_OF_ROUNDS": "5"}
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = {**os.environ, **files, **given, "RUNNER_TEMP": str(tmp_path), "PATH": path}
    _, export, compare = scripts(action)
    way = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"]
    assert subprocess.run([*way, export], env=env, cwd=tmp_path).returncode == 0
    assert subprocess.run([*way, compare], env=env, cwd=tmp_path).returncode == 1
    log = Path(files["LOG"]).read_text().splitlines()
    assert log[0].endswith("--budget-mb 0") and log[1].startswith("export")
    assert log[2].endswith("--seconds 5 --max-slower 1.1 --max-error 0.1")
    assert "said" in Path(files["GITHUB_STEP_SUMMARY"]).read_text()
    env["BASE"] = "not there"
    assert subprocess.run([*way, compare], env=env, cwd=tmp_path).returncode == 0


def test_the_recipe_gives_inputs_that_the_action_has(action: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "web.md").read_text("utf-8")
    match = re.search(r"```yaml recipe\n(.*?)```", text, re.S)
    assert match is not None
    steps = yaml.safe_load(match[1])["jobs"]["bundle"]["steps"]
    mine = next(step for step in steps if "nnjit-studio" in step["uses"])
    assert set(mine["with"]) <= set(action["inputs"])
    needed = {name for name, given in action["inputs"].items() if given.get("required")}
    assert needed <= set(mine["with"])
