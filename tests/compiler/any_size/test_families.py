"""How kernels for any size are called, and what they make of settings."""

from __future__ import annotations

import pytest

from nnjit_studio.compiler.any_size.kernels.families import family_of, settings_at
from nnjit_studio.compiler.any_size.kernels.scalars import Sizes
from nnjit_studio.compiler.any_size.tree import numbers, with_numbers
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.errors import CompileError
from nnjit_studio.model.family import Family
from nnjit_studio.model.size import Dim, Size, size
from nnjit_studio.records.candidate import Candidate

TILE = Candidate(8, 3, 2, 16, 12, 20, "mn", True)


def product(rows: int) -> Program:
    return program_for(f"matmul:{rows}x24x32:f32")


def family(rows: Size) -> Family | None:
    """Of a product of so many rows, in a program with that in the place of 61."""
    symbolic = with_numbers(
        product(61),
        (rows if n == 61 else n for n in numbers(product(61))),  # type: ignore[arg-type,misc]
    )

    def at(sizes: Sizes) -> Program:
        return product(rows.at(sizes))

    return family_of(symbolic, at, sorted(rows.dims, key=str))


def test_names_and_ranges_of_dimensions_do_not_matter_and_formulas_do() -> None:
    rows, other = Dim("rows"), Dim("length", 4, 512, 4)
    found = family(size(rows))
    assert found is not None and found.name == "matmul:?x24x32:f32" and found.axis == 0
    assert family(size(other)) == found
    twice = family(size(rows) * 2)
    assert twice is not None and twice.name == found.name and twice.key != found.key
    ab, ba = size(Dim("a")) * size(Dim("b")), size(Dim("z")) * size(Dim("y"))
    assert family(ab) == family(ba) not in (None, found)


def test_a_kernel_of_one_size_has_no_family() -> None:
    assert family_of(product(61), lambda sizes: product(61), [Dim("n")]) is None


def test_blocks_along_open_axes_go() -> None:
    programs = [product(n) for n in (4, 61)]
    found = settings_at(programs, TILE)
    assert found == (Candidate(8, 3, 2, 16, 3, 20, "mn", True),) * 2
    first, second = settings_at(programs, None)
    assert first == second and first.y0 == first.y1 > 3, "the guess of the largest size"
    with pytest.raises(CompileError, match="no settings for any size"):
        settings_at([program_for("attention:2x5x8x12:f32")], TILE)


def test_blocks_of_a_convolution_follow_its_size() -> None:
    programs = [program_for(f"conv2d:1x8x{n}x{n}x16x3x3x1x1x1x1:f32") for n in (8, 40)]
    tile = Candidate(8, 2, 2, 8, 2, 8, "nm", True)
    small, large = settings_at(programs, tile)
    assert (small.x0, small.y0, small.r0) == (large.x0, large.y0, large.r0) == (8, 2, 2)
