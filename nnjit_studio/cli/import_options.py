"""Options for the import of a model: its open dimensions, its convolutions, its weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

import click

from nnjit_studio.cli.verbs import group, option
from nnjit_studio.model import GivenShapes, ImportOptions

T = TypeVar("T")
_LARGEST = 1 << 30


def _named(parse: Callable[[str], T]) -> Callable[..., dict[str, T]]:
    """The callback of an option of the form NAME=VALUE."""

    def callback(
        context: click.Context, option: click.Parameter, texts: tuple[str, ...]
    ) -> dict[str, T]:
        found = {}
        for text in texts:
            name, _, value = text.rpartition("=")
            if not name:
                raise click.BadParameter(f"{text!r} is not of the form {option.metavar}")
            found[name] = parse(value)
        return found

    return callback


def _number(text: str) -> int:
    if not text.strip().isdecimal() or not 1 <= int(text) <= _LARGEST:
        raise click.BadParameter(f"{text!r} is not a whole number from 1 to {_LARGEST}")
    return int(text)


def _shape(text: str) -> tuple[int, ...]:
    return tuple(_number(n) for n in text.split(","))


def sizes_of_options(
    context: click.Context, option: click.Parameter, texts: tuple[str, ...]
) -> dict[str, tuple[int, ...]]:
    """The callback of ``[NAME=]N,N,...``: sizes by their dimension's name, which may be empty."""
    found: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, value = text.rpartition("=")
        if name in found:
            raise click.BadParameter(f"{name or 'the open dimension'} has its sizes twice")
        found[name] = _shape(value)
    return found


def shares_of_option(
    context: click.Context, option: click.Parameter, text: str | None
) -> tuple[float, ...]:
    """The callback of ``N,N,...`` that need not be whole; empty without the option."""
    try:
        found = tuple(float(word) for word in (text or "").split(",") if word.strip())
    except ValueError:
        found = (-1.0,)
    if any(not 0 <= weight < math.inf for weight in found):
        raise click.BadParameter(f"{text!r} is no list of numbers of 0 or more")
    return found


def _importing(
    no_winograd: bool = False,
    weights: str = "",
    dim: Mapping[str, int] = MappingProxyType({}),
    shape: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    way: Mapping[str, str] = MappingProxyType({}),
) -> ImportOptions:
    shapes = GivenShapes(dict(dim), dict(shape))
    return ImportOptions(shapes, not no_winograd, weights == "f16", dict(way))


_DIMENSIONS = {
    "dim": option(
        None,
        "Size of an open dimension, by its name in the model.",
        multiple=True,
        metavar="NAME=N",
        callback=_named(_number),
    ),
    "shape": option(
        None,
        "Full shape of an input with open dimensions.",
        multiple=True,
        metavar="INPUT=D0,D1,..",
        callback=_named(_shape),
    ),
}
_OTHERS = {
    "way": option(
        None,
        "A choice of the plan made otherwise than by its rule, as `nnjit advise` lists them.",
        multiple=True,
        metavar="CHOICE=VALUE",
        callback=_named(str),
    ),
    "no_winograd": option(False, "Import 3x3 convolutions directly, without Winograd tiles."),
    "weights": option(
        "model",
        "f16 rounds weights of products and lookups to half precision: half the memory, "
        "errors near 1e-3 (see `nnjit diff`).",
        type=click.Choice(("model", "f16")),
        show_default=False,
    ),
}

IMPORTING: Any = group(_importing, {**_DIMENSIONS, **_OTHERS})
"""Makes :class:`ImportOptions`."""
SHAPES: Any = group(_importing, _DIMENSIONS)
"""The same of ``--dim`` and ``--shape`` alone."""
IMPORTING_FIXED: Any = group(_importing, _OTHERS)
"""The same without ``--dim`` and ``--shape``."""
