"""Fixtures as the header and blobs of a request."""

from __future__ import annotations

from typing import Any

from nnjit_studio.engine.messages.arrays import array_bytes
from nnjit_studio.engine.messages.frames import Blob
from nnjit_studio.model import NUMPY_DTYPES
from nnjit_studio.records import Fixture


def fixture_request(fixture: Fixture) -> tuple[dict[str, Any], list[Blob]]:
    """The request that sends a fixture, with its inputs and references by index of the blob.

    References of floats travel as f32 whatever the output's dtype, others as they are.
    """
    blobs: list[Blob] = []

    def blob(data: Blob) -> int:
        blobs.append(data)
        return len(blobs) - 1

    args = [
        {
            "role": arg.role,
            "dtype": arg.dtype,
            "nbytes": arg.nbytes,
            "pack": arg.pack,
            "blob": None if arg.data is None else blob(arg.data),
        }
        for arg in fixture.args
    ]
    outputs = []
    dtypes = [arg.dtype for arg in fixture.args if arg.role == "output"]
    for expected, bound, dtype in zip(fixture.expected, fixture.bound, dtypes, strict=True):
        sent = NUMPY_DTYPES["f32" if dtype == "f16" else dtype]
        reference = blob(array_bytes(expected.astype(sent)))
        limit = blob(array_bytes(bound.astype(NUMPY_DTYPES["f32"])))
        outputs.append({"expected": reference, "bound": limit})
    header = {"type": "fixture", "workload": fixture.workload, "args": args, "outputs": outputs}
    return header, blobs
