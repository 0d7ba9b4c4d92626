"""Programs as JSON: what a machine without the model needs to compile its kernels.

A node is an object of one member, its class with the list of its fields; a tuple is a list.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

from nnjit_studio.compiler.ir.tensor_ir import (
    Axis,
    Buffer,
    Expr,
    Program,
    Stage,
    Statement,
)
from nnjit_studio.errors import UserError

_NODES = {
    c.__name__: c for c in (Program, Stage, Axis, Buffer, *get_args(Expr), *get_args(Statement))
}


def text_of_program(program: Program) -> str:
    """The program as one line of JSON."""
    return json.dumps(_plain(program), separators=(",", ":"))


def program_from_text(text: str) -> Program:
    """The program of :func:`text_of_program`.

    Raises
    ------
    UserError
        When the text is none.
    """
    try:
        program = _node(json.loads(text))
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise UserError("The text is not a program.", "Export it again.") from e
    if not isinstance(program, Program):
        raise UserError("The text is a part of a program.", "Export it again.")
    return program


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if dataclasses.is_dataclass(value):
        fields = [_plain(getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {type(value).__name__: fields}
    return value


def _node(plain: Any) -> Any:
    if isinstance(plain, list):
        return tuple(map(_node, plain))
    if isinstance(plain, dict):
        ((name, fields),) = plain.items()
        return _NODES[name](*map(_node, fields))
    return plain
