from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnjit_studio.engine.messages.frames import MAX_FRAME_BYTES, decode_frame, encode_frame
from nnjit_studio.errors import PageError

FIXTURES = json.loads(
    (Path(__file__).parents[1] / "protocol" / "fixtures.json").read_text(encoding="utf-8")
)


def named(cases: list[dict[str, Any]]) -> list[Any]:
    assert cases
    return [pytest.param(case, id=case["name"]) for case in cases]


@pytest.mark.parametrize("case", named(FIXTURES["accepted"]))
def test_reads_and_writes_what_the_page_writes(case: dict[str, Any]) -> None:
    frame = bytes.fromhex(case["hex"])
    header, blobs = decode_frame(frame)
    assert header == case["header"]
    assert [blob.hex() for blob in blobs] == case["blobs"]
    given_header = {key: value for key, value in header.items() if key != "blobs"}
    assert encode_frame(given_header, blobs) == frame


@pytest.mark.parametrize("case", named(FIXTURES["refused"]))
def test_refuses_what_the_page_refuses(case: dict[str, Any]) -> None:
    with pytest.raises(PageError, match="malformed"):
        decode_frame(bytes.fromhex(case["hex"]))


@given(st.text(), st.lists(st.binary(max_size=40), max_size=4))
def test_round_trip_keeps_blobs_aligned(text: str, blobs: list[bytes]) -> None:
    frame = encode_frame({"type": "log", "text": text}, blobs)
    header, got = decode_frame(frame)
    assert len(frame) % 8 == 0
    assert header["text"] == text
    assert [bytes(blob) for blob in got] == blobs


@given(st.binary(max_size=80))
def test_any_bytes_decode_or_are_refused_as_malformed(data: bytes) -> None:
    try:
        header, _ = decode_frame(data)
    except PageError as error:
        assert "malformed" in error.error
    else:
        assert isinstance(header["type"], str)


def test_refuses_frames_over_the_limit() -> None:
    blob = bytes(MAX_FRAME_BYTES)
    with pytest.raises(PageError, match="too large"):
        encode_frame({"type": "weights"}, [blob])
    with pytest.raises(PageError, match="more than"):
        decode_frame(blob + b"x")


def test_not_a_number_is_no_json() -> None:
    with pytest.raises(ValueError):
        encode_frame({"type": "x", "value": float("nan")})


def test_a_header_nested_too_deep_is_malformed() -> None:
    text = b'{"type": "log", "text": ' + b"[" * 200_000
    with pytest.raises(PageError, match="malformed"):
        decode_frame(struct.pack("<I", len(text)) + text)
