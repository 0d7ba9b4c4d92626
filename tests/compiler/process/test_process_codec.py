"""Messages of the compile process: typed data, and nothing else."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

from nnjit_studio.compiler.process import codec
from nnjit_studio.compiler.process.operations import Failure
from nnjit_studio.compiler.process.table import OPERATIONS
from nnjit_studio.errors import BugError


def travelled(message: object) -> bytes:
    ours, theirs = multiprocessing.Pipe()
    codec.send(ours, "message", message)
    kind, body = codec.receive(theirs)
    assert kind == "message"
    return body


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.arange(12, dtype=np.int64).reshape(3, 4).T[::2],
        np.array(1.5, np.float16),
        np.zeros((0, 3), np.int8),
        np.array([True, False]),
    ],
    ids=["rows", "columns", "scalar", "empty", "flags"],
)
def test_arrays_arrive_as_they_are(array: np.ndarray) -> None:  # type: ignore[type-arg]
    found = codec.decode(travelled({"x": array}), OPERATIONS["reference_tensors"].reply, "reply")[
        "x"
    ]
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    assert found.tobytes() == array.tobytes()


def test_programs_are_never_unpickled_on_the_way(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (open, (str(tmp_path / "opened"), "w"))

    data = {"w": pickle.dumps(Bomb())}
    for message, made in ((data, dict[str, bytes]), ((data,), OPERATIONS["restore"].request)):
        assert codec.decode(travelled(message), made, "message") == message
    assert not (tmp_path / "opened").exists()


def test_what_is_no_such_message_is_refused() -> None:
    body = travelled(Failure("It failed.", "", "UserError"))
    for wrong in (body, body[:-1], b"", b"\x80\x04}."):
        with pytest.raises(BugError, match="no request of reference_tensors"):
            codec.decode(
                wrong, OPERATIONS["reference_tensors"].request, "request of reference_tensors"
            )


def test_an_object_that_is_no_data_cannot_be_sent() -> None:
    ours, theirs = multiprocessing.Pipe()
    with pytest.raises(NotImplementedError, match="cannot hold a object"):
        codec.send(ours, "reply", {"x": object()})
    assert not theirs.poll(0), "no half a message"
