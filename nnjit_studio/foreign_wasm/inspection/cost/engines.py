"""Engines that compile Wasm files and tell how long each took."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ISOLATION_V8 = ("--no-wasm-lazy-compilation", "--no-wasm-inlining")
"""What isolation needs of V8: stubs that are not inlined (see ``isolate``)."""
SLOW_MS = 1500.0
EVER_MS = 1e9
"""Longer than anything takes, so that everything is repeated."""

Row = list[float | str | None]
"""Milliseconds of each file in one round; an engine's words where it refuses a file, None where
the file was slow and is not repeated."""


@dataclass(frozen=True)
class Job:
    """Files to compile, each once a round, with one tier.

    Attributes
    ----------
    flags
        Further ones, of V8.
    slow_ms
        What takes longer is compiled in the first round only.
    on_line
        Gets what the engine prints.
    """

    tier: str
    files: Sequence[Path]
    rounds: int = 1
    flags: Sequence[str] = ()
    slow_ms: float = SLOW_MS
    on_line: Callable[[str], None] = lambda line: None

    def to_json(self) -> str:
        """What a page is told."""
        names = [file.name for file in self.files]
        return json.dumps({"files": names, "rounds": self.rounds, "slow_ms": self.slow_ms})


class Engine(Protocol):
    """One that can be told which of its compilers to use."""

    @property
    def name(self) -> str:
        """As the user gave it."""

    @property
    def kind(self) -> str:
        """``v8`` or ``spidermonkey``."""

    def version(self) -> str:
        """As the program says it."""

    def compile(self, job: Job) -> Generator[Row, None, int | None]:
        """A row for each round, and then the peak of the process' memory in bytes.

        All files of a job lie in one folder. Closing the generator ends the engine.
        """


TIERS = {"v8": ("liftoff", "turbofan"), "spidermonkey": ("baseline", "ion")}
"""The compilers of each kind of engine, the fast one first."""
