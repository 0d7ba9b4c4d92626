"""Settings that were tuned at one size, for kernels of any size."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nnjit_studio.compiler.any_size.kernels.compiled import At, Compiled, any_size_kernel
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import CompileError, ModelError
from nnjit_studio.model.size import Dim, Size
from nnjit_studio.records.candidate import Candidate

Winners = Mapping[str, Candidate]
"""What won for workloads, at one size each, by their keys."""

_MOST_SIZES, _LARGEST_POWER = 64, 14


@dataclass
class Tuning:
    """Compiles kernels with what won at the sizes at hand or at powers of two, else by guess."""

    dims: Sequence[Dim]
    example: Mapping[str, int]
    winners: Winners
    taken: int = 0
    refused: list[str] = field(default_factory=list)

    def compiled(
        self, name: str, at: At, extents: Sequence[Size], shapes: Sequence[Size]
    ) -> Compiled:
        """See :func:`nnjit_studio.compiler.any_size.kernels.compiled.any_size_kernel`."""
        tile = self._best(at) if self.winners else None
        if tile is not None:
            try:
                made = any_size_kernel(name, at, extents, self.dims, shapes, tile)
            except (CompileError, ModelError) as error:
                self.refused.append(f"Tuned settings do not suit {name} at any size: {error.error}")
            else:
                self.taken += 1
                return made
        return any_size_kernel(name, at, extents, self.dims, shapes)

    def notes(self, kernels: int) -> tuple[str, ...]:
        """What a user should know, of so many kernels in all."""
        taken = f"{self.taken} of {kernels} kernels have settings that were tuned at one size."
        return (*([taken] if self.taken else []), *self.refused)

    def _best(self, at: At) -> Candidate | None:
        """What won at most sizes; of settings that did equally often, those nearest at hand."""
        found: Counter[Candidate] = Counter()
        for sizes in itertools.islice(self._sizes(), _MOST_SIZES):
            program = at(sizes)
            winner = self.winners.get(workload_for(program, subject_of(program)).key)
            if winner is not None:
                found[winner] += 1
        return next((tile for tile, _ in found.most_common(1)), None)

    def _sizes(self) -> Iterator[Mapping[str, int]]:
        yield self.example
        for n in (1 << p for p in range(_LARGEST_POWER)):
            fitting = [d.name for d in self.dims if d.takes(n)]
            for names in dict.fromkeys((*((name,) for name in fitting), tuple(fitting))):
                sizes = {**self.example, **dict.fromkeys(names, n)}
                if sizes != self.example:
                    yield sizes
