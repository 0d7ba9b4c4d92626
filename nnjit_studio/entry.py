"""What the programs ``nnjit`` and ``nnjit-studio`` call.

A spawned process imports the main module of its parent again. This one imports
nothing, so that compile and GPU processes do not load the command line.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point ``nnjit``."""
    from nnjit_studio.cli.main import main as run

    run()


def studio_main() -> None:
    """Entry point ``nnjit-studio``."""
    from nnjit_studio.cli.main import main as run

    run(["studio", *sys.argv[1:]])
