"""Messages between the Studio and its compile process: typed dataclasses as MessagePack.

A message is two frames of a pipe: its kind, and its body. Decoding checks every field against
its type and makes nothing but data: the parent never unpickles what the process sends.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nnjit_studio.errors import BugError


def send(pipe: Connection, kind: str, message: object) -> None:
    """One message; nothing of it is sent where it holds what is no data."""
    body = _ENCODER.encode(message)
    pipe.send_bytes(kind.encode())
    pipe.send_bytes(body)


def receive(pipe: Connection) -> tuple[str, bytes]:
    """The kind of the next message, and its body for :func:`decode`."""
    return pipe.recv_bytes().decode(errors="replace"), pipe.recv_bytes()


def decode(body: bytes, made: Any, what: str) -> Any:
    """The object of a type, such as a dataclass, that a body holds; ``what`` names it in errors.

    Raises
    ------
    BugError
        When it holds something else.
    """
    try:
        return _decoder(made).decode(body)
    except (msgspec.MsgspecError, ValueError, TypeError) as e:
        raise BugError(f"A message is no {what}: {e}.") from e


@functools.cache
def _decoder(made: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(made, dec_hook=_from_plain)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        return array.dtype.str, value.shape, array.reshape(-1).view(np.uint8).data
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise NotImplementedError(f"A message cannot hold a {type(value).__name__}.")


def _from_plain(made: type[Any], plain: Any) -> object:
    if made is Path:
        return Path(plain)
    dtype, shape, data = plain  # the arrays of NumPy are the only other type that needs this
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)
