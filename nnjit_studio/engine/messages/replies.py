"""Replies of the page, checked: what is missing or of another kind is a ``PageError``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nnjit_studio.errors import PageError

T = TypeVar("T")


def flag(reply: Mapping[str, Any], name: str) -> bool:
    value: bool = _field(reply, name, "a boolean", _is_flag)
    return value


def text(reply: Mapping[str, Any], name: str) -> str:
    value: str = _field(reply, name, "a text", lambda value: isinstance(value, str))
    return value


def texts(reply: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(
        _field(reply, name, "a list of texts", _list_of(lambda item: isinstance(item, str)))
    )


def number(reply: Mapping[str, Any], name: str) -> float:
    value: float = _field(reply, name, "a number", _is_number)
    return value


def integer(reply: Mapping[str, Any], name: str) -> int:
    value: int = _field(reply, name, "an integer", _is_integer)
    return value


def numbers(reply: Mapping[str, Any], name: str) -> tuple[float, ...]:
    return tuple(_field(reply, name, "a list of numbers", _list_of(_is_number)))


def number_rows(reply: Mapping[str, Any], name: str) -> tuple[tuple[float, ...], ...]:
    rows = _field(reply, name, "a list of lists of numbers", _list_of(_list_of(_is_number)))
    return tuple(map(tuple, rows))


def integers(reply: Mapping[str, Any], name: str) -> tuple[int, ...]:
    return tuple(_field(reply, name, "a list of integers", _list_of(_is_integer)))


def flags(reply: Mapping[str, Any], name: str) -> tuple[bool, ...]:
    return tuple(_field(reply, name, "a list of booleans", _list_of(_is_flag)))


def records(reply: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    return list(
        _field(reply, name, "a list of objects", _list_of(lambda item: isinstance(item, dict)))
    )


def rates(reply: Mapping[str, Any], name: str) -> dict[str, float]:
    def good(value: Any) -> bool:
        return isinstance(value, dict) and all(map(_is_number, value.values()))

    return dict(_field(reply, name, "an object of numbers", good))


def ratio(reply: Mapping[str, Any], name: str) -> float:
    """A number, or infinity as the text ``inf``: JSON has none."""
    return float("inf") if reply.get(name) == "inf" else number(reply, name)


def optional(
    read: Callable[[Mapping[str, Any], str], T], reply: Mapping[str, Any], name: str
) -> T | None:
    """What ``read`` makes of the field; None where it is null or absent."""
    return None if reply.get(name) is None else read(reply, name)


def _field(reply: Mapping[str, Any], name: str, kind: str, good: Callable[[Any], bool]) -> Any:
    value = reply.get(name)
    if not good(value):
        raise PageError(
            f"The page's answer {reply.get('type')!r} is malformed: {name!r} is not {kind}.",
            "Reload the page; it may be an old copy.",
        )
    return value


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _list_of(good: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(good, value))
