"""Numbers at several sizes as one, and kernels that are compiled once for all of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from nnjit_studio.compiler.any_size.kernels import compiled
from nnjit_studio.compiler.any_size.kernels.compiled import any_size_kernel
from nnjit_studio.compiler.any_size.kernels.several import Differs, Several, at, several
from nnjit_studio.compiler.ir.tensor_ir import Axis, Buffer, Call, Load, Program, Stage, Store, Var
from nnjit_studio.model.size import Dim, size

N = Dim("n", 1, 1 << 20)


def test_they_compute_as_each_number_would() -> None:
    n, m = several((40, 77)), several((3, 5))
    assert [at((7 - n) // m * 2 + n % m, i) for i in range(2)] == [-21, -26]
    assert divmod(n, 8) == (several((5, 9)), several((0, 5))) and n - n == 0
    assert divmod(40, n) == (several((1, 0)), several((0, 40)))
    assert n > m and n.bit_length() == several((6, 7)) and {n: 1}[several((40, 77))] == 1


def test_no_one_answer_and_no_number_of_one_size() -> None:
    n = several((40, 77))
    assert several((4, 4)) == 4 and not isinstance(several((4, 4)), Several)
    for ask in (
        lambda: n == 40,
        lambda: n < 50,
        lambda: range(n),
        lambda: int(n),
        lambda: float(n),
    ):
        with pytest.raises(Differs):
            ask()


def test_a_kernel_is_the_same_compiled_once_or_at_each_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def program(sizes: Mapping[str, int]) -> Program:
        asked.append(sizes)
        extent = sizes["n"]
        x, y = Buffer("x", "f32", (extent,), "input"), Buffer("y", "f32", (extent,), "output")
        store = Store("y", Var("i"), Call("exp", (Load("x", Var("i")),)))
        return Program("p", (x, y), (Stage("s", (Axis("i", extent),), (store,)),))

    def refuse(*_: object) -> None:
        raise Differs

    asked: list[Mapping[str, int]] = []
    once = any_size_kernel("p", program, [size(N)], [N])
    assert any(isinstance(sizes["n"], Several) for sizes in asked)
    monkeypatch.setattr(compiled._Maker, "_together", refuse)
    assert any_size_kernel("p", program, [size(N)], [N]) == once
