from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from nnjit_studio.support.garbage import SELDOM


def test_spawned_processes_do_not_load_the_command_line() -> None:
    """They import their parent's main module again, and that imports the entry point."""
    program = "import sys, nnjit_studio.entry; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    modules = set(loaded.stdout.split())
    assert "nnjit_studio.entry" in modules
    assert modules.isdisjoint({"nnjit_studio.cli.main", "numpy", "click", "PySide6"})


def test_both_programs_start() -> None:
    for name in ("main", "studio_main"):
        program = f"from nnjit_studio.entry import {name}; {name}()"
        run = subprocess.run(
            [sys.executable, "-c", program, "--help"], capture_output=True, text=True
        )
        assert run.returncode == 0
        assert "Usage: nnjit" in run.stdout


def test_what_is_loaded_is_seldom_searched_for_garbage() -> None:
    program = (
        "import atexit, gc, nnjit_studio.entry as entry; "
        "atexit.register(lambda: print(*gc.get_threshold())); entry.main()"
    )
    run = subprocess.run([sys.executable, "-c", program, "-h"], capture_output=True, text=True)
    assert tuple(map(int, run.stdout.splitlines()[-1].split())) == SELDOM


def test_the_package_runs_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "nnjit_studio", "--version"], capture_output=True, text=True
    )
    assert run.returncode == 0
    assert run.stdout.startswith("nnjit, version ")


def test_telemetry_is_off_before_onnx_runtime_is_loaded() -> None:
    program = (
        "import os, sys; os.environ['ORT_DISABLE_TELEMETRY'] = '0'; import nnjit_studio.entry; "
        "print(os.environ['ORT_DISABLE_TELEMETRY'], 'onnxruntime' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.split() == ["1", "False"]


def test_scripts_without_the_package_switch_telemetry_off_themselves() -> None:
    loads = re.compile(r"^(?:import|from) onnxruntime\b", re.MULTILINE)
    switch = 'os.environ["ORT_DISABLE_TELEMETRY"] = "1"'
    found = 0
    for script in (Path(__file__).parents[2] / "benchmarks").rglob("*.py"):
        text = script.read_text()
        first = loads.search(text)
        if first and "nnjit_studio" not in text[: first.start()]:
            found += 1
            assert switch in text[: first.start()], script
    assert found
