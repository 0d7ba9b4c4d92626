"""Verbs as functions: each option is declared once, as the default of a parameter or a field.

A parameter may stand for a group of options: a frozen dataclass, made of them before the verb
runs.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import click

from nnjit_studio.support.files import behind, is_replaced

BYTES_ON_STDOUT = f"{__name__}.bytes_on_stdout"
"""In a context's ``meta``: words go to stderr, for a file is written to stdout."""


def is_stdout(path: Path) -> bool:
    """Whether a file is what stdout writes to."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):  # there is no such file, or stdout is none
        return False


class _Output(click.Path):
    """A file to write: that it cannot be is told before the work for it begins."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if ctx is not None and is_stdout(path):
            ctx.meta[BYTES_ON_STDOUT] = True
        if not is_replaced(path):
            return path
        try:
            file = behind(path)
        except OSError as e:
            self.fail(f"{str(path)!r} cannot be written: {e.strerror}.", param, ctx)
        folder = next(p for p in file.parents if os.path.exists(p))
        if not folder.is_dir():
            self.fail(f"{str(folder)!r} is no folder.", param, ctx)
        if not os.access(folder, os.W_OK | os.X_OK):
            self.fail(f"Nothing can be written into the folder {str(folder)!r}.", param, ctx)
        return path


FILE, PATH = click.Path(path_type=Path, dir_okay=False), click.Path(path_type=Path)
OUTPUT = _Output(path_type=Path, dir_okay=False, readable=False, writable=True)
FOLDER = click.Path(path_type=Path, file_okay=False)
COUNT = click.IntRange(1)
AT_LEAST_0, POSITIVE = click.FloatRange(0), click.FloatRange(0, min_open=True)

_DECLARE = "click"


def option(
    default: Any, help: str | None = None, *, flag: str = "", type: Any = None, **settings: Any
) -> Any:
    """The option of a parameter or a field: of its name, or of the words in ``flag``.

    Without ``type`` it follows from the annotation: a flag for a bool, a path for a path. The
    default is shown where there is one. Other settings are those of :class:`click.Option`.
    """

    def declare(name: str, annotation: Any) -> click.Parameter:
        words = flag.split() or ["--" + name.replace("_", "-")]
        given = {"show_default": default not in (None, "", False), "default": default, **settings}
        if annotation is bool and "/" not in flag:
            given["is_flag"] = True
        elif type is not None or Path in (annotation, *get_args(annotation)):
            given["type"] = type or PATH
        return click.Option([*words, name], help=help, **given)

    return dataclasses.field(default=default, metadata={_DECLARE: declare})


def argument(**settings: Any) -> Any:
    """The argument of a parameter; settings are those of :class:`click.Argument`."""
    metadata = {_DECLARE: lambda name, annotation: click.Argument([name], **settings)}
    return dataclasses.field(metadata=metadata)


def same(declared: Any) -> Any:
    """An option that other groups or verbs have too, as a field."""
    return dataclasses.field(default=declared.default, metadata=declared.metadata)


@dataclass(frozen=True)
class Group:
    """Options that make one value, by their names as parameters of the function that makes it."""

    make: Callable[..., object]
    params: Mapping[str, click.Parameter]


def group(make: Callable[..., object], fields: Mapping[str, Any] | None = None) -> Any:
    """The group that a function makes of these options; of a dataclass, of those of its fields."""
    types = get_type_hints(make)
    if fields is None:
        fields = make.__dataclass_fields__  # type: ignore[attr-defined]
    return Group(make, {n: f.metadata[_DECLARE](n, types[n]) for n, f in fields.items()})


def verb(name: str = "", help: str | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function, each of whose parameters has its options as the default."""

    def decorate(function: Callable[..., None]) -> click.Command:
        types = get_type_hints(function)
        groups: dict[str, Group] = {}
        for parameter, p in inspect.signature(function).parameters.items():
            if isinstance(p.default, Group):
                groups[parameter] = p.default
            else:
                own = p.default.metadata[_DECLARE](parameter, types[parameter])
                groups[parameter] = Group(lambda **value: value.popitem()[1], {parameter: own})

        def called(**given: Any) -> None:
            made = {
                parameter: each.make(**{n: given[n] for n in each.params})
                for parameter, each in groups.items()
            }
            function(**made)

        params = [p for each in groups.values() for p in each.params.values()]
        return click.Command(
            name or function.__name__,
            callback=called,
            params=params,
            help=help or function.__doc__,
        )

    return decorate


class LazyGroup(click.Group):
    """Verbs that are loaded when they are asked for: none waits for the libraries of another.

    Parameters
    ----------
    package
        Of the modules.
    verbs
        Module and name of each, such as ``peers:compile_times``.
    """

    def __init__(self, *args: Any, package: str, verbs: Mapping[str, str], **given: Any) -> None:
        super().__init__(*args, **given)
        self._package, self._verbs = package, verbs

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._verbs:
            return None
        module, _, name = self._verbs[cmd_name].partition(":")
        found: click.Command = getattr(importlib.import_module(f"{self._package}.{module}"), name)
        return found
