from __future__ import annotations

import subprocess
import sys


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


def test_the_package_runs_as_a_module() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "nnjit_studio", "--version"], capture_output=True, text=True
    )
    assert run.returncode == 0
    assert run.stdout.startswith("nnjit, version ")
