"""What the functions of the compile process share, and how they are found."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.process.table import Operation


@dataclass
class State:
    """A job's ways to its parent, and what it leaves for later jobs."""

    phase: Callable[[str], None]
    """Tells the parent that the job reached a phase."""
    send_programs: Callable[[dict[str, bytes]], None]
    """Gives the parent programs, which it keeps without reading them."""
    confined: tuple[str, ...] = ()
    """What the kernel keeps this process from (:mod:`nnjit_studio.compiler.process.sandbox`)."""
    programs: dict[str, Program] = field(default_factory=dict)
    """By workload key."""
    settled: bool = False
    """Whether what an earlier job left is kept out of garbage collections."""

    def keep(self, programs: Mapping[str, Program]) -> None:
        """Add programs, for later processes too."""
        self.programs.update(programs)
        self.send_programs({key: pickle.dumps(program) for key, program in programs.items()})


def handler_of(row: Operation) -> Callable[..., object]:
    """The function of a row, which takes the state before its arguments; the first one of its
    module loads the module."""
    module = importlib.import_module(f"{__package__}.{row.handlers}")
    found: Callable[..., object] = getattr(module, row.declared.__name__)
    return found
