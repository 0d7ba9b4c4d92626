"""Outputs as the page sends them where one is as long as its data says."""

import numpy as np
import pytest

from nnjit_studio.engine.messages.arrays import blobs_to_outputs
from nnjit_studio.errors import PageError
from nnjit_studio.model import FoundAxis, PlanPort, TensorSpec

PORT = PlanPort(TensorSpec("y", (2, 5), "i64"), 0, found=FoundAxis(1, 1))


@pytest.mark.parametrize("count", [0, 3, 5])
def test_a_found_axis_is_as_long_as_it_is(count: int) -> None:
    y = np.arange(2 * count).reshape(2, count)
    sent = {"name": "y", "shape": [2, count], "dtype": "i64"}
    got = blobs_to_outputs([PORT], [sent], [memoryview(y.tobytes())])["y"]
    np.testing.assert_array_equal(got, y)
    assert got.shape == (2, count)


@pytest.mark.parametrize(
    "shape", [[2, 6], [2, -1], [3, 2], [6], [2, "3"], [2, 3.0], [2, True], None, "23"]
)
def test_what_has_no_room_or_is_no_shape_is_refused(shape: object) -> None:
    sent = {"name": "y", "shape": shape, "dtype": "i64"}
    with pytest.raises(PageError, match="other outputs"):
        blobs_to_outputs([PORT], [sent], [memoryview(bytes(48))])


def test_too_few_bytes_or_outputs_are_refused() -> None:
    sent = {"name": "y", "shape": [2, 3], "dtype": "i64"}
    for described, blobs in (([sent], [memoryview(bytes(40))]), ([], [])):
        with pytest.raises(PageError, match="other outputs"):
            blobs_to_outputs([PORT], described, blobs)
