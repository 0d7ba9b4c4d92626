"""What kernels for any size share: drawn sizes, and the programs of a size."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from nnjit_studio.compiler.any_size.kernels import samples
from nnjit_studio.compiler.any_size.kernels.compiled import any_size_kernel
from nnjit_studio.compiler.any_size.kernels.samples import draws, leaves_tiles
from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Call, Load, Program, Stage, Store, Var
from nnjit_studio.model.size import Dim, size

N, M = Dim("n", 1, 1 << 20), Dim("m", 2, 1 << 20, 2)


def test_sizes_go_on_over_blocks_as_one_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin() -> list[Mapping[str, int]]:
        samples._block.cache_clear()
        return list(itertools.islice(draws(((N, 34, 1), (M, 17, 1)), 2), 40))

    whole = begin()
    monkeypatch.setattr(samples, "_BLOCK", 3)
    assert begin() == whole
    samples._block.cache_clear()
    assert all(s["n"] >= 34 and s["m"] >= 34 and s["m"] % 2 == 0 for s in whole)


def test_a_kernel_asks_once_for_the_program_of_a_size() -> None:
    asked: list[int] = []

    def at(sizes: Mapping[str, int]) -> Program:
        extent = sizes["n"]
        asked.append(extent)
        x, y = Buffer("x", "f32", (extent,), "input"), Buffer("y", "f32", (extent,), "output")
        store = Store("y", Var("i"), Call("exp", (Load("x", Var("i")),)))
        return Program("p", (x, y), (Stage("s", (Axis("i", extent),), (store,)),))

    made = any_size_kernel("p", at, [size(N)], [N])
    assert made.code and len(asked) == len(set(asked))


@pytest.mark.parametrize("tile", [4, 12])
@pytest.mark.parametrize("place", range(3))
def test_no_other_count_of_tiles_holds_at_all_samples(tile: int, place: int) -> None:
    """Else a row is left out where a map is one row more than tiles."""
    others = range(34, 200)
    for wrong in (lambda n: n // tile + 1, lambda n: -(-(n - 1) // tile)):
        alike = [n for n in range(34, 200) if wrong(n) == -(-n // tile)]
        held = []
        for turn in range(6):
            rows = ([m, m, m] for m in others)
            maps = ([*row[:place], n, *row[place + 1 :]] for row in rows for n in alike)
            held.append(any(leaves_tiles(each, turn, 0, [tile]) for each in maps))
        assert not all(held)
