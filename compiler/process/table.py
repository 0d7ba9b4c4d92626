"""How a method becomes an operation of the compile process, and the table of all operations."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar, cast, get_type_hints

from nnjit_studio.errors import NnjitError
from nnjit_studio.support.limits import PATIENCE, SECONDS
from nnjit_studio.support.phases import quiet

COMPILE_TIMEOUT_S = 20.0
LONG = PATIENCE * SECONDS
"""Seconds that work on a stranger's model may take."""
Declared = TypeVar("Declared", bound=Callable[..., Any])


@dataclass(frozen=True)
class Operation:
    """A row of the table: how long an operation may take, and whose fault it is."""

    declared: Callable[..., Any]
    """Its name and signature; a function of that name does it."""
    handlers: str
    """The module below :mod:`.handlers` that has the function; loaded by its first job."""
    timeout_s: float = COMPILE_TIMEOUT_S
    """From the request, and from each phase, to the next message."""
    _: KW_ONLY
    lost: str = ""
    """Of a job on a stranger's model: what ended when the process died, as the subject of a
    sentence. The model is to blame then, not the Studio."""
    imports: int = 0
    """How many imports' budget it has (:mod:`nnjit_studio.compiler.onnx_file.budget`): for several
    sizes, or any, it holds several imports and a few sessions of ONNX Runtime. 0 without one."""
    raises: type[NnjitError] | None = None
    """The class of all errors of the job; without it they keep the class that was raised."""
    loads: bool = False
    """Whether it loads code or programs, which stay."""

    @functools.cached_property
    def types(self) -> dict[str, Any]:
        """The type of each argument that travels, then that of the reply as ``return``."""
        hints = get_type_hints(self.declared)
        return {name: hint for name, hint in hints.items() if name != "on_phase"}

    @property
    def request(self) -> Any:
        """The type of all arguments together, as they travel."""
        *arguments, _ = self.types.values()
        return tuple[tuple(arguments)]  # type: ignore[misc]

    @property
    def reply(self) -> Any:
        """The type of the reply."""
        return self.types["return"]

    def subject(self, request: tuple[Any, ...]) -> str:
        """What ended, of a job on these arguments."""
        return self.lost.format(**dict(zip(self.types, request, strict=False)))


OPERATIONS: dict[str, Operation] = {}
"""By name, which is the kind of the message that asks for it."""


def operation(
    handlers: str, timeout_s: float = COMPILE_TIMEOUT_S, **facts: Any
) -> Callable[[Declared], Declared]:
    """Make a method, of which only the signature counts, an operation that is called by it.

    The arguments travel but for ``on_phase``, which is told of each phase. The parameters are the
    fields of :class:`Operation`.
    """

    def declare(method: Declared) -> Declared:
        name, signature = method.__name__, inspect.signature(method)
        OPERATIONS[name] = Operation(method, handlers, timeout_s, **facts)

        @functools.wraps(method)
        def call(self: Any, *given: Any, **named: Any) -> Any:
            bound = signature.bind(self, *given, **named)
            bound.apply_defaults()
            on_phase = bound.arguments.pop("on_phase", quiet)
            _, *arguments = bound.arguments.values()
            return self.call(name, tuple(arguments), on_phase)

        return cast(Declared, call)

    return declare
