"""The memory plan never lets two living tensors share a byte."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from nnjit_studio.compiler.importer.memory import Lifetime, aligned, plan_offsets

lifetimes = st.builds(
    lambda nbytes, first, length: Lifetime(nbytes, first, first + length),
    st.integers(1, 5000),
    st.integers(0, 20),
    st.integers(0, 8),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(lifetimes, max_size=30))
def test_no_overlap_while_alive(items: list[Lifetime]) -> None:
    offsets, total = plan_offsets(items)
    for i, a in enumerate(items):
        assert offsets[i] % 64 == 0
        assert offsets[i] + a.nbytes <= total
        for j, b in enumerate(items[:i]):
            if a.first <= b.last and b.first <= a.last:
                assert offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]


def test_memory_is_used_again() -> None:
    chain = [Lifetime(1000, i, i + 1) for i in range(20)]
    _, total = plan_offsets(chain)
    assert total == 2 * aligned(1000)
