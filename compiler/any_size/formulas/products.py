"""Products of atoms at all samples: a number may be a multiple of one, plus a constant."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Products:
    """Products of one degree.

    Attributes
    ----------
    values
        A row for each product, a column for each sample.
    parts
        The places of its factors among the atoms.
    """

    values: Ints
    parts: NDArray[np.intp]

    def times(self, atoms: Ints) -> Products:
        """Products of one degree more."""
        i, j = np.nonzero(self.parts[:, -1:] <= np.arange(len(atoms)))
        return Products(self.values[i] * atoms[j], np.column_stack((self.parts[i], j)))

    @cached_property
    def _run(self) -> tuple[NDArray[np.intp], Ints]:
        """The sample of each product that is farthest from the first one, for two may be alike, and
        how far it is."""
        far = abs(self.values - self.values[:, :1]).argmax(1)
        return far, self.values[np.arange(len(far)), far] - self.values[:, 0]

    def multiples(self, v: Ints) -> tuple[NDArray[np.intp], Ints]:
        """Rows of which ``v`` is a multiple, and the factors."""
        first = self.values[:, 0]
        return self._exact(v, np.full(len(first), v[0]), first)

    def lines(self, v: Ints) -> tuple[NDArray[np.intp], Ints]:
        """Rows of which ``v`` is a multiple plus a constant, and the factors."""
        far, run = self._run
        return self._exact(v, v[far] - v[0], run)

    def _exact(self, v: Ints, wanted: Ints, own: Ints) -> tuple[NDArray[np.intp], Ints]:
        """Where a factor that is told by two numbers holds at all samples."""
        rows = np.flatnonzero((own != 0) & (wanted != 0))
        rows = rows[wanted[rows] % own[rows] == 0]  # few: only of these all samples are looked at
        factors = wanted[rows] // own[rows]
        rest = v - factors[:, None] * self.values[rows]
        fits = (rest == rest[:, :1]).all(1)
        return rows[fits], factors[fits]
