"""Formulas from samples: sizes of tensors in order, then the numbers of programs."""

from __future__ import annotations

from collections.abc import Callable

from nnjit_studio.compiler.any_size.fit import Fit, Numbers
from nnjit_studio.compiler.any_size.tree import numbers, skeleton, with_numbers
from nnjit_studio.compiler.ir.tensor_ir import Axis, Const, Load, Program, Stage, Store, Var
from nnjit_studio.model.size import Dim, size

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
    assert fit.found[half] == (h + 1) // 2
    assert fit.found[quarter] == (h + 1) // 4
    assert fit.found[both] == h + w
    assert fit.found[flat] == h * w * 3
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


def test_a_tree_is_its_skeleton_and_its_numbers() -> None:
    store = Store("y", Var("i"), Load("x", Var("i") * 4) + Const(0.5, "f32"))
    tree = Program("p", (), (Stage("s", (Axis("i", 8),), (store,)),))
    assert list(numbers(tree)) == [8, 4, 0.5]
    other = with_numbers(tree, iter([9, 5, 0.25]))
    assert skeleton(other) == skeleton(tree)
    assert list(numbers(other)) == [9, 5, 0.25]
    assert with_numbers(other, numbers(tree)) == tree
