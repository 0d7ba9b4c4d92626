"""Binary frames between hub and page (docs/protocol.md, "Frame")."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from nnjit_studio.errors import PageError

MAX_FRAME_BYTES = 128 * 1024 * 1024
ALIGNMENT_BYTES = 8

Blob = bytes | bytearray | memoryview
Frame = tuple[dict[str, Any], list[memoryview]]


def encode_frame(header: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> bytes:
    """Header and blobs as one frame.

    Raises
    ------
    PageError
        When the frame would be larger than 128 MiB.
    """
    views = [memoryview(blob).cast("B") for blob in blobs]
    full = {**header, "blobs": [view.nbytes for view in views]} if views else dict(header)
    text = json.dumps(full, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    parts: list[Blob] = [struct.pack("<I", len(text)), text, bytes(_padding(4 + len(text)))]
    for view in views:
        parts += [view, bytes(_padding(view.nbytes))]
    frame = b"".join(parts)
    if len(frame) > MAX_FRAME_BYTES:
        raise PageError(
            f"A {header.get('type')!r} frame of {len(frame)} bytes is too large for the page.",
            f"A frame holds at most {MAX_FRAME_BYTES} bytes.",
        )
    return frame


def decode_frame(data: Blob) -> Frame:
    """Header and blobs of a frame; the blobs are views into ``data``.

    Raises
    ------
    PageError
        When a length does not add up or the header is not what it must be.
    """
    frame = memoryview(data).cast("B")
    if frame.nbytes > MAX_FRAME_BYTES:
        raise _bad(f"{frame.nbytes} bytes are more than {MAX_FRAME_BYTES}")
    if frame.nbytes < 4:
        raise _bad(f"{frame.nbytes} bytes do not hold the length of a header")
    (length,) = struct.unpack_from("<I", frame)
    end = 4 + length
    if end > frame.nbytes:
        raise _bad(f"a header of {length} bytes does not fit into {frame.nbytes}")
    try:
        header = json.loads(bytes(frame[4:end]), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:  # as JSON, as UTF-8, or too deep
        raise _bad(f"the header is not JSON ({error})") from error
    if not isinstance(header, dict) or not isinstance(header.get("type"), str):
        raise _bad("the header is not an object with a type")
    return header, _blobs(frame, end, header.get("blobs", []))


def _blobs(frame: memoryview, header_end: int, sizes: Any) -> list[memoryview]:
    if not isinstance(sizes, list) or not all(type(n) is int and n >= 0 for n in sizes):
        raise _bad("blobs is not a list of sizes")
    position = header_end + _padding(header_end)
    blobs = []
    for nbytes in sizes:
        blobs.append(frame[position : position + nbytes])
        position += nbytes + _padding(nbytes)
    if position != frame.nbytes:
        raise _bad(f"its lengths add up to {position} bytes, it has {frame.nbytes}")
    return blobs


def _padding(nbytes: int) -> int:
    return -nbytes % ALIGNMENT_BYTES


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _bad(why: str) -> PageError:
    return PageError(f"A frame is malformed: {why}.", "Reload the page; it may be an old copy.")
