from __future__ import annotations

import struct

import pytest

from nnjit_studio.engine.gpu_bridge.adapters import software_renderer
from nnjit_studio.engine.gpu_bridge.wire import (
    COPY,
    CREATE,
    DESTROY,
    DISPATCH,
    MAX_BINDINGS,
    STAMP,
    WRITE,
    Copy,
    Create,
    Destroy,
    Stamp,
    Write,
    bindings,
    unpack,
)
from nnjit_studio.errors import PageError


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}I", *numbers)


def test_commands_come_out_in_order() -> None:
    packed = words(7, 4, 0, 8, 0, 9, 0, 1, 12, 0)
    batch = (
        words(CREATE, 1, 16, 2)
        + words(WRITE, 1, 4, 0, 3)
        + words(DISPATCH, 5, 1, 2, 3, 2)
        + packed
        + words(COPY, 1, 4, 0, 2, 8, 1, 12, 0)
        + words(STAMP, 6)
        + words(DESTROY, 1)
    )
    assert list(unpack(batch)) == [
        Create(1, 2 * 2**32 + 16),
        Write(1, 4, 3),
        (5, 1, 2, 3, packed),
        Copy(1, 4, 2, 2**32 + 8, 12),
        Stamp(6),
        Destroy(1),
    ]
    assert bindings(packed) == [(7, 4, 8), (9, 2**32, 12)]
    assert list(unpack(b"")) == []


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (b"abc", "no whole words"),
        (words(0), "no operation 0"),
        (words(99, 1), "no operation 99"),
        (words(CREATE, 1, 16), "cut off"),
        (words(STAMP), "cut off"),
        (words(DISPATCH, 1, 1, 1, 1), "cut off"),
        (words(DISPATCH, 1, 1, 1, 1, 1, 7, 0, 0, 8), "cut off"),
        (words(DISPATCH, 1, 1, 1, 1, MAX_BINDINGS + 1), "more than"),
        (words(DISPATCH, 1, 1, 1, 1, 2**32 - 1), "more than"),
    ],
)
def test_what_is_no_batch_is_refused(batch: bytes, why: str) -> None:
    with pytest.raises(PageError, match=why):
        list(unpack(batch))


@pytest.mark.parametrize(
    ("names", "software"),
    [
        (("mesa", "llvmpipe (LLVM 15.0.6, 256 bits)"), "llvmpipe"),
        (("google", "swiftshader", "SwiftShader Device (Subzero)"), "SwiftShader"),
        (("microsoft", "Microsoft Basic Render Driver"), "WARP"),
        (("microsoft", "warp"), "WARP"),
        (("nvidia", "NVIDIA H200"), ""),
        (("intel", "Intel(R) Arc(TM) A770"), ""),
        (("acme", "Warped Silicon 9"), ""),
        ((), ""),
    ],
)
def test_software_is_told_by_its_name(names: tuple[str, ...], software: str) -> None:
    assert software_renderer(*names) == software


def test_software_without_a_known_name_is_told_by_its_flag() -> None:
    assert software_renderer("acme", is_fallback=True) == "a software adapter"
