"""A kernel for any size is lowered once for both tiers, where these decide on nothing."""

from __future__ import annotations

import pytest
from replay_programs import spelt
from wgsl_programs import PROGRAMS

from nnjit_studio.compiler.any_size.kernels.functions import parts
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import loops_of, lowered
from nnjit_studio.compiler.wasm import lower as lowering
from nnjit_studio.compiler.wasm.fuse_multiply_add import fuse_multiply_add
from nnjit_studio.records import TIERS

PRODUCTS = spelt("matmul:17x33x21:f32+bias", "conv2d:1x16x14x14x32x3x3x1x1x1x1:f32+bias")
OTHERS = spelt("matmul:17x33x21:f32+bias+gelu") | PROGRAMS


def times(program: Program, monkeypatch: pytest.MonkeyPatch) -> int:
    """How often it is lowered; its functions are what each tier makes alone."""
    loops, done = loops_of(program), []
    alone = [
        lowering.lower(program, scheduled, tier, any_size=True)
        for tier, scheduled in zip(TIERS, loops, strict=True)
    ]
    fuse_multiply_add(alone[TIERS.index("relaxed-simd")])
    whole = lowering._lowered
    monkeypatch.setattr(lowering, "_lowered", lambda *a: done.append(a) or whole(*a))
    made = lowered(program, loops)
    for one, other in zip(made, alone, strict=True):
        assert (one.params, one.names, parts(one)) == (other.params, other.names, parts(other))
    return len(done)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_is_lowered_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert times(PRODUCTS[name], monkeypatch) == 1


@pytest.mark.parametrize("name", OTHERS)
def test_each_tier_has_the_code_that_it_has_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert times(OTHERS[name], monkeypatch) in (1, 2)
