from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nnjit_command import LONG_S

SCRIPT = Path(__file__).with_name("embedded_scenarios.py")


@pytest.mark.embedded
@pytest.mark.parametrize(
    "scenario",
    [
        "journey_works",
        "threads_end_with_their_model",
        "error_comes_through",
        "crash_is_reported",
        "interrupt_ends_the_work",
        "interrupted_work_may_end_well",
        "nothing_of_elsewhere_is_loaded",
        "a_page_that_cannot_load_is_reported",
        "root_is_told_about_the_flag",
    ],
)
def test_scenario(scenario: str) -> None:
    """A process of its own each: a crash of the engine must not take pytest along."""
    run = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), scenario],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        env=os.environ | {"LC_ALL": "C.UTF-8"},  # Qt warns of a locale that is not installed
    )
    assert (run.returncode, run.stdout) == (0, "PASSED\n"), run.stdout + run.stderr
    if scenario == "journey_works":
        assert run.stderr == "", "a good run says nothing on stderr"
