"""The functions of the compile process by the class of the request, and what they share."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.process.operations import Request
from nnjit_studio.compiler.process.table import Operation

Asked = TypeVar("Asked", bound=Request[Any])
Handler = TypeVar("Handler", bound=Callable[..., object])


@dataclass
class State:
    """A job's way to its parent, and what it leaves for later jobs."""

    phase: Callable[[str], None]
    """Tells the parent that the job reached a phase."""
    confined: tuple[str, ...] = ()
    """What the kernel keeps this process from (:mod:`nnjit_studio.compiler.process.sandbox`)."""
    programs: dict[str, Program] = field(default_factory=dict)
    """By workload key."""

    def keep(self, programs: Mapping[str, Program]) -> dict[str, bytes]:
        """Add programs, and give them as the parent keeps them."""
        self.programs.update(programs)
        return {key: pickle.dumps(program) for key, program in programs.items()}


_HANDLERS: dict[type[Request[Any]], Callable[[State, Any], object]] = {}


def handles(request: type[Asked]) -> Callable[[Handler], Handler]:
    """Make a function the one that does the job of a request."""

    def register(handler: Handler) -> Handler:
        _HANDLERS[request] = handler
        return handler

    return register


def handler_of(row: Operation) -> Callable[[State, Any], object]:
    """The function of a row; the first one of its module loads the module."""
    importlib.import_module(f"{__package__}.{row.handlers}")
    return _HANDLERS[row.request]
