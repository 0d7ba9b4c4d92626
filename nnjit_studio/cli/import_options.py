"""How a model is imported: its open dimensions, its convolutions, its weights.

The options of a verb that opens a model leave what they were given in click's context,
so that whoever makes a compile process finds it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nnjit_studio.model import GivenShapes

if TYPE_CHECKING:
    from nnjit_studio.compiler.process.client import CompileProcess

F = TypeVar("F", bound=Callable[..., Any])
_KEY = "nnjit_studio.given_shapes"
_DIRECT = "nnjit_studio.direct_convolutions"
_WEIGHTS = "nnjit_studio.weights"
_LARGEST = 1 << 30


def shape_options(command: F) -> F:
    """Add ``--dim``, ``--shape``, ``--no-winograd`` and ``--weights`` to a verb; they are no
    parameters of its function."""
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
    return dim(shape(import_options(command)))


def import_options(command: F) -> F:
    """Add ``--no-winograd`` and ``--weights`` to a verb; :func:`set_import` has their effect."""

    def keep(key: str) -> Callable[..., None]:
        def callback(context: click.Context, option: click.Parameter, value: Any) -> None:
            context.meta[key] = value

        return callback

    direct = click.option(
        "--no-winograd",
        is_flag=True,
        expose_value=False,
        callback=keep(_DIRECT),
        help="Import 3x3 convolutions as they are, none in tiles by Winograd.",
    )
    weights = click.option(
        "--weights",
        type=click.Choice(("model", "f16")),
        default="model",
        expose_value=False,
        callback=keep(_WEIGHTS),
        help="f16 rounds weights of products and lookups to halves: half the memory, and errors "
        "near 1e-3, as `nnjit diff` shows.",
    )
    return direct(weights(command))


def set_import(compiler: CompileProcess) -> None:
    """Have a compile process import as the running verb's options say."""
    context = click.get_current_context(silent=True)
    meta = context.meta if context else {}
    compiler.shapes = given_shapes()
    compiler.winograd = not meta.get(_DIRECT)
    compiler.half_weights = meta.get(_WEIGHTS) == "f16"


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
