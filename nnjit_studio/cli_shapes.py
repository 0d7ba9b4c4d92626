"""``--dim`` and ``--shape``: numbers for the open dimensions of a model's inputs.

The options of a verb that opens a model leave what they were given in click's context,
so that whoever makes a compile process finds it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from nnjit_studio.graph import GivenShapes

F = TypeVar("F", bound=Callable[..., Any])
_KEY = "nnjit_studio.given_shapes"
_DIRECT = "nnjit_studio.direct_convolutions"
_LARGEST = 1 << 30


def shape_options(command: F) -> F:
    """Add ``--dim``, ``--shape`` and ``--no-winograd`` to a verb; they are no parameters of its
    function."""
    shape = click.option(
        "--shape",
        multiple=True,
        metavar="INPUT=D0,D1,..",
        expose_value=False,
        callback=_keep("shapes", lambda text: tuple(_number(n) for n in text.split(","))),
        help="The whole shape of an input with open dimensions.",
    )
    dim = click.option(
        "--dim",
        multiple=True,
        metavar="NAME=N",
        expose_value=False,
        callback=_keep("dims", _number),
        help="A number for an open dimension, by its name in the model.",
    )
    return dim(shape(winograd_option(command)))


def winograd_option(command: F) -> F:
    """Add ``--no-winograd`` to a verb; see :func:`uses_winograd`."""

    def keep(context: click.Context, option: click.Parameter, value: bool) -> None:
        context.meta[_DIRECT] = value

    return click.option(
        "--no-winograd",
        is_flag=True,
        expose_value=False,
        callback=keep,
        help="Import 3x3 convolutions as they are, none in tiles by Winograd.",
    )(command)


def uses_winograd() -> bool:
    """What the running verb's option says: whether convolutions may run in tiles."""
    context = click.get_current_context(silent=True)
    return not (context and context.meta.get(_DIRECT))


def given_shapes() -> GivenShapes:
    """What the running verb's options say."""
    context = click.get_current_context(silent=True)
    return context.meta.get(_KEY, GivenShapes()) if context else GivenShapes()


def hint_shapes(arrays: Mapping[str, Any]) -> None:
    """Arrays at hand settle what no option gave."""
    _store("hints", {name: array.shape for name, array in arrays.items()})


def _store(field: str, found: Mapping[str, Any]) -> None:
    context = click.get_current_context(silent=True)
    if context is not None:
        held = {**vars(given_shapes()), field: found}
        context.meta[_KEY] = GivenShapes(**held)


def _keep(field: str, parse: Callable[[str], Any]) -> Callable[..., None]:
    def callback(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
        found = {}
        for text in values:
            name, _, value = text.rpartition("=")
            if not name:
                raise click.BadParameter(f"{text!r} is not of the form {option.metavar}")
            found[name] = parse(value)
        _store(field, found)

    return callback


def _number(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= _LARGEST:
        raise click.BadParameter(f"{text!r} is not a whole number from 1 to {_LARGEST}")
    return int(text)
