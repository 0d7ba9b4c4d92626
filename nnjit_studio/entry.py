"""What the programs ``nnjit`` and ``nnjit-studio`` call.

A spawned process imports the main module of its parent again. At its
top this one imports three modules of the standard library, which ``multiprocessing`` loads anyway,
and nothing of the Studio, so that compile and GPU processes do not load the command line.
"""

from __future__ import annotations

import os
import sys
import threading


def main() -> None:
    """Entry point ``nnjit``."""
    _run(None)


def studio_main() -> None:
    """Entry point ``nnjit-studio``."""
    _run(["studio", *sys.argv[1:]])


def _run(words: list[str] | None) -> None:
    from nnjit_studio.support.garbage import look_seldom

    look_seldom()
    from nnjit_studio.cli.main import main as run

    run(words)


def job_main() -> None:
    """A verb of a fleet's worker: it ends when the worker does, who holds its standard input."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    main()


def _end_with_input() -> None:
    while os.read(0, 1):  # no buffer, whose lock the end of the program would wait for
        pass
    os._exit(1)
