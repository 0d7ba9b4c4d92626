"""The lite space of a product of bytes on a GPU: that of :mod:`.matmul` on words of four k.

``r0``, ``r1`` and ``k`` count words. Few rows have no template of their own: they are the rows of
a low tile, which reads B once as well.
"""

from __future__ import annotations

from functools import lru_cache

from nnjit_studio.errors import UserError
from nnjit_studio.model import Workload
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.records.quantised import MATMUL_INT8
from nnjit_studio.space.webgpu.matmul import ANY_GPU, MatmulProblem

WORD = 4
"""Steps of k in a word."""


class Int8Problem(MatmulProblem):
    """A product whose reduction runs over words."""

    @property
    def few_rows(self) -> bool:
        return False

    @property
    def family(self) -> str:
        return "gpu-int8"

    def cost(self, c: GpuCandidate) -> float:
        # Unsigned bytes: each word of B is also summed, once for the rows of a thread.
        return super().cost(c) * (1 + 1 / c.y0)


def int8_problem(workload: Workload, gpu: GpuProfile) -> Int8Problem:
    """Sizes of a workload ``matmul_int8:MxKxN``.

    Raises
    ------
    UserError
        When the workload is another.
    """
    if workload.kind != MATMUL_INT8 or len(workload.dims) != 3:
        raise UserError(f"{workload.name} is no product of bytes.", "Give one.")
    m, k, n = workload.dims
    return Int8Problem(1, m, k // WORD, n, gpu, False)


@lru_cache(maxsize=1024)
def untuned_int8(m: int, k: int, n: int) -> GpuCandidate:
    """Settings that run on every device: the best expected for a GPU of middle size."""
    problem = Int8Problem(1, m, k // WORD, n, ANY_GPU, False)
    return problem.tiles[0] if problem.tiles else GpuCandidate(4, 4, 4, 32, 32, 16)
