"""Replies of the page as typed values: what is missing or of another type is a ``PageError``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from nnjit_studio.errors import PageError

T = TypeVar("T")


def read(reply: Mapping[str, Any], made: type[T], required: Sequence[str] = ()) -> T:
    """A reply as a dataclass; a field that is null or absent gets its default.

    Parameters
    ----------
    required
        Fields that must be there although the dataclass has a default for them.

    Raises
    ------
    PageError
        When a field without a default is missing, or one is of another type.
    """
    given = {name: value for name, value in reply.items() if value is not None}
    try:
        for name in required:
            if name not in given:
                raise ValueError(f"{name!r} is missing")
        return msgspec.convert(given, made)
    except ValueError as error:  # of msgspec too
        raise PageError(
            f"The page's answer {reply.get('type')!r} is malformed: {error}.",
            "Reload the page; it may be an old copy.",
        ) from error
