"""Formulas from samples: sizes of tensors in order, then the numbers of programs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nnjit_studio.compiler.any_size.formulas.fit import Fit, Numbers
from nnjit_studio.compiler.any_size.kernels.compiled import _Maker
from nnjit_studio.compiler.any_size.kernels.samples import SMALLEST
from nnjit_studio.compiler.any_size.tree import numbers, skeleton, template, with_numbers
from nnjit_studio.compiler.any_size.unified import inverse
from nnjit_studio.compiler.ir.tensor_ir import Axis, Const, Load, Program, Stage, Store, Var
from nnjit_studio.model.size import Dim, least, most, size

H, W = Dim("h", 2), Dim("w", 2)
DRAWN = ((7, 22), (5, 23), (9, 16), (30, 12), (12, 45), (26, 9), (19, 28), (33, 31))
SAMPLES = [{"h": h, "w": w} for h, w in DRAWN]


def vector(formula: Callable[[int, int], int]) -> tuple[int, ...]:
    return tuple(formula(s["h"], s["w"]) for s in SAMPLES)


def test_sizes_of_operators_are_explained_by_those_before_them() -> None:
    fit = Fit([H, W], SAMPLES)
    half, quarter = vector(lambda h, w: (h + 1) // 2), vector(lambda h, w: ((h + 1) // 2) // 2)
    both, flat = vector(lambda h, w: h + w), vector(lambda h, w: 3 * h * w)
    fit.learn([half, quarter, both, flat, vector(lambda h, w: h**3 % 17)])
    h, w = size(H), size(W)
    assert fit.found[half] == [(h + 1) // 2]
    assert fit.found[quarter] == [(h + 1) // 4]
    assert fit.found[both] == [h + w]
    assert fit.found[flat] == [h * w * 3]
    assert vector(lambda h, w: h**3 % 17) not in fit.found


def test_numbers_of_programs_are_multiples_of_products() -> None:
    h, w = size(H), size(W)
    numbers_of = Numbers({vector(lambda h, w: h): h, vector(lambda h, w: w): w})
    assert numbers_of.formula(vector(lambda h, w: 12 * h * w)) == h * w * 12
    assert numbers_of.formula(vector(lambda h, w: h * w - 1)) == h * w - 1
    assert numbers_of.formula(vector(lambda h, w: 5 * w + 3)) == w * 5 + 3
    assert numbers_of.formula(vector(lambda h, w: h ^ w)) is None
    numbers_of.learn([vector(lambda h, w: h + 2), vector(lambda h, w: w + 2)])
    assert numbers_of.formula(vector(lambda h, w: (h + 2) * (w + 2))) == (h + 2) * (w + 2)


def test_the_larger_of_two_sizes_and_what_windows_see_are_explained_too() -> None:
    h, w = size(H), size(W)
    atoms = {vector(lambda h, w: h): h, vector(lambda h, w: w): w}
    assert Numbers(atoms).formula(vector(max)) == most(h, w)
    assert Numbers(atoms).formula(vector(min)) == least(h, w)
    assert Numbers(atoms).formula(vector(lambda h, w: min(w, 25))) == least(w, 25)
    assert Numbers(atoms).formula(vector(lambda h, w: 24 * min(w, 25))) == least(w, 25) * 24
    assert Numbers(atoms).formula(vector(lambda h, w: 0)) is None
    seen = Numbers(atoms).formula(vector(lambda h, w: 12 * h * (2 * h - 1) * (2 * w - 1)))
    assert seen == h * (h * 2 - 1) * (w * 2 - 1) * 12
    cut = vector(lambda h, w: 3 * h * ((h + 1) // 4) * ((w + 1) // 4))
    assert Numbers(atoms).formula(cut) is None
    found = Numbers(atoms, places=((1, 4),))
    part = vector(lambda h, w: ((h + 1) // 4) * ((w + 1) // 4))
    assert found.formula(part) == ((h + 1) // 4) * ((w + 1) // 4)
    assert found.formula(cut) == h * ((h + 1) // 4) * ((w + 1) // 4) * 3


def test_a_factor_of_nothing_is_one_over_no_size() -> None:
    h = size(H)
    numbers_of = Numbers({vector(lambda h, w: h): h})
    ones = [float(np.float32(1 / s["h"])) for s in SAMPLES]
    assert inverse(numbers_of, ones) == h
    assert inverse(numbers_of, [0.0, *ones[1:]]) is None


def test_loops_have_turns_enough_where_a_table_ends_a_dimension() -> None:
    """A formula is of the dimension without the end."""
    high = Dim("h", 32, 2048, 32)
    part = (size(Dim("h", 32, step=32)) + 15) // 16
    maker = _Maker("k", lambda sizes: None, (part,), (high,))  # type: ignore[arg-type, return-value]
    assert part.at({"h": maker._drawing.first(high) * 32}) >= SMALLEST


def test_a_tree_is_its_skeleton_and_its_numbers() -> None:
    store = Store("y", Var("i"), Load("x", Var("i") * 4) + Const(0.5, "f32"))
    tree = Program("p", (), (Stage("s", (Axis("i", 8),), (store,)),))
    assert list(numbers(tree)) == [8, 4, 0.5]
    other = with_numbers(tree, iter([9, 5, 0.25]))
    assert skeleton(other) == skeleton(tree)
    assert list(numbers(other)) == [9, 5, 0.25]
    assert with_numbers(other, numbers(tree)) == tree
    assert list(numbers(template(tree, {1})({1: 5}))) == [8, 5, 0.5]
    assert template(tree, ())({}) is tree
