"""The text of one tuning for many sizes."""

from nnjit_studio.analysis.tuned_sizes import TunedSizes


def test_of_many_kernels_without_time_the_heaviest_are_named():
    """A line named thirty keys."""
    left = tuple(f"matmul:{n}" for n in range(30))
    found = TunedSizes("m", ({"n": 16},), (1.0,), {"n": 16}, (), left, ())
    assert "for 30 kernels: matmul:0, matmul:1, matmul:2 and 27 more. More" in found.as_text()
    few = TunedSizes("m", ({"n": 16},), (1.0,), {"n": 16}, (), left[:2], ())
    assert "for 2 kernels: matmul:0, matmul:1. More" in few.as_text()
