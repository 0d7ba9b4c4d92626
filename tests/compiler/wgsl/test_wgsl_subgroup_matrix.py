"""The lab's products. No software adapter has subgroup matrices: they are spelt as plain arrays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from wgsl_harness import run_document

from nnjit_studio.compiler.wgsl.core.document import Dispatch
from nnjit_studio.compiler.wgsl.templates.subgroup_matrix import (
    FEATURES,
    MatrixTiles,
    matrix_product,
    matrix_space,
)
from nnjit_studio.errors import CompileError

_EMULATED = """var<private> lane: u32;
fn mma(a: vec2<u32>, b: vec2<u32>, sums: array<f32, 8>) -> array<f32, 8> {
  var c = sums;
  for (var i = 0u; i < 8u; i++) {
    let at = lane * 8u + i;
    for (var k = 0u; k < 16u; k++) {
      c[i] += tileA[a.x + at / 16u * a.y + k] * tileB[b.x + k * b.y + at % 16u];
    }
  }
  return c;
}
fn keep(place: u32, sums: array<f32, 8>, stride: u32) {
  var c = sums;
  for (var i = 0u; i < 8u; i++) {
    let at = lane * 8u + i;
    C[place + at / 16u * stride + at % 16u] = c[i];
  }
}
"""
_SPELLINGS = {
    "enable f16;\n": "",
    "enable chromium_experimental_subgroup_matrix;\n": "",
    "diagnostic(off, chromium.subgroup_matrix_uniformity);\n": "",
    "array<f16,": "array<f32,",
    "bitcast<vec2<f16>>": "unpack2x16float",
    "subgroup_matrix_result<f32, 16, 16>": "array<f32, 8>",
    "subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>(&tileA, ": "vec2<u32>(",
    "subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, row_major>(&tileB, ": "vec2<u32>(",
    "subgroupMatrixMultiplyAccumulate": "mma",
    "subgroupMatrixStore<row_major>(&C, ": "keep(",
    "let sg = ": "lane = li % 32u; let sg = ",
}


def emulated(dispatch: Dispatch) -> Dispatch:
    """A thread of a subgroup holds 8 values of a result, and where the operands lie."""
    code = dispatch.code
    for spelling, plain in _SPELLINGS.items():
        assert spelling in code
        code = code.replace(spelling, plain)
    return replace(dispatch, code=code.replace("@compute", _EMULATED + "@compute"))


@pytest.mark.parametrize(
    ("batch", "shape", "tiles"),
    [
        (2, (64, 64, 128), MatrixTiles(2, 1, 2, 2, 2)),
        (1, (64, 64, 64), MatrixTiles(1, 2, 2, 1, 2)),
    ],
)
def test_a_product(batch: int, shape: tuple[int, int, int], tiles: MatrixTiles) -> None:
    m, k, n = shape
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((batch, *dims)).astype(np.float16) for dims in ((m, k), (k, n)))
    document = matrix_product(batch, m, k, n, tiles)
    assert set(document.requires) == set(FEATURES)
    plain = replace(document, dispatches=tuple(map(emulated, document.dispatches)))
    *_, got = run_document(plain, [a.tobytes(), b.tobytes(), 4 * batch * m * n])
    exact = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(
        np.frombuffer(got, np.float32).reshape(exact.shape), exact, 1e-4, 1e-4
    )


def test_the_space_has_what_fits_and_no_other() -> None:
    space = matrix_space(384, 768, 768)
    assert len(space) == len(set(space)) > 50
    for tiles in space:
        assert matrix_product(1, 384, 768, 768, tiles).dispatches[0].workgroups == (
            768 // tiles.columns,
            384 // tiles.rows,
            1,
        )
    assert matrix_space(100, 64, 64) == []
    with pytest.raises(CompileError, match="no multiple"):
        matrix_product(1, 100, 64, 64, space[0])
