"""Random calls of the contract of MLAS' kernels, and what they must leave in memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import wasmtime
from kernel_harness import engine
from numpy.typing import NDArray

from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import PANEL, Mode

FLOATS = 1 << 17
"""Of a memory of eight pages."""


@dataclass(frozen=True)
class Case:
    """A product in a random memory; places and strides count floats."""

    image: NDArray[np.float32]
    m: int
    k: int
    n: int
    lda: int
    ldc: int
    a: int
    b: int
    c: int
    alpha: float

    @staticmethod
    def random(seed: int) -> Case:
        rng = np.random.default_rng(seed)
        m, n = int(rng.integers(1, 30)), int(rng.integers(1, 40 if seed % 2 else 140))
        k = int(rng.integers(0, 4) if seed % 5 == 0 else rng.integers(1, 150))
        lda, ldc = k + int(rng.integers(0, 9)), n + int(rng.integers(0, 9))
        a = 1024 + int(rng.integers(0, 16))
        b = a + m * lda + 64 & ~15
        c = b + -(-n // PANEL) * PANEL * k + int(rng.integers(1, 20))
        image = rng.uniform(-1, 1, FLOATS).astype(np.float32)
        if seed % 3 == 0 and k:
            special = np.float32([np.nan, np.inf, -np.inf, 1e-40, -0.0])
            image[a + rng.integers(0, m * lda)] = rng.choice(special)
        alpha = 1.0 if seed % 2 else float(rng.uniform(-1.5, 1.5))
        return Case(image, m, k, n, lda, ldc, a, b, c, float(np.float32(alpha)))

    def operands(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """A and B, unpacked."""
        panels = -(-self.n // PANEL)
        packed = self.image[self.b : self.b + panels * PANEL * self.k]
        columns = packed.reshape(panels, self.k, PANEL).transpose(1, 0, 2)
        b = columns.reshape(self.k, panels * PANEL)[:, : self.n]
        rows = np.arange(self.m)[:, None] * self.lda + np.arange(self.k)[None]
        return self.image[self.a + rows], b

    def expected(self, mode: Mode) -> NDArray[np.float32]:
        """The memory afterwards, in float32: products and sums rounded one by one."""
        a, b = self.operands()
        total = np.zeros((self.m, self.n), np.float32)
        with np.errstate(all="ignore"):
            for k in range(self.k):
                total += a[:, k : k + 1] * b[k]
            total *= np.float32(self.alpha)
            return self._with(total, mode)

    def bound(self, mode: Mode) -> NDArray[np.float64]:
        """What rounding may change when products are not rounded: of every float of the memory."""
        a, b = (np.abs(x).astype(np.float64) for x in self.operands())
        with np.errstate(invalid="ignore"):
            sums = abs(self.alpha) * (a @ b)
        where = self._places()
        bound = np.zeros(FLOATS)
        bound[where] = sums + (np.abs(self.image[where]) if mode is Mode.ADD else 0)
        return bound * 2.0**-24 * (self.k + 4)

    def _places(self) -> NDArray[np.int64]:
        rows = np.arange(self.m)[:, None] * self.ldc
        places: NDArray[np.int64] = self.c + rows + np.arange(self.n)[None]
        return places

    def _with(self, total: NDArray[np.float32], mode: Mode) -> NDArray[np.float32]:
        image = self.image.copy()
        where = self._places()
        image[where] = total + image[where] if mode is Mode.ADD else total
        return image


class Donor:
    """A donor's module in wasmtime, on a memory of its own."""

    def __init__(self, module: bytes) -> None:
        self._store = wasmtime.Store(engine())
        limits = wasmtime.Limits(FLOATS * 4 // 65536, None)
        self._memory = wasmtime.Memory(self._store, wasmtime.MemoryType(limits))
        compiled = wasmtime.Module(engine(), module)
        instance = wasmtime.Instance(self._store, compiled, [self._memory])
        self._exports = instance.exports(self._store)

    def run(self, name: str, case: Case) -> tuple[NDArray[np.float32], int]:
        """The memory after a caller's walk over all rows, and the most rows of one call."""
        self._memory.write(self._store, case.image.tobytes(), 0)
        row = most = 0
        while row < case.m:
            a, c = 4 * (case.a + row * case.lda), 4 * (case.c + row * case.ldc)
            sizes = case.k, case.m - row, case.n, case.lda, case.ldc
            rows = self._exports[name](self._store, a, 4 * case.b, c, *sizes, case.alpha)
            assert 1 <= rows <= case.m - row
            row, most = row + rows, max(most, rows)
        after = self._memory.read(self._store, 0, FLOATS * 4)
        return np.frombuffer(bytes(after), np.float32), most
