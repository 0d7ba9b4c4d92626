"""Settings that were tuned, at several sizes or at one, for kernels of any size."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nnjit_studio.compiler.any_size.kernels.compiled import Compiled, Within, any_size_kernel
from nnjit_studio.compiler.any_size.kernels.families import extent_of, family_of
from nnjit_studio.compiler.any_size.kernels.intervals import joined
from nnjit_studio.compiler.any_size.kernels.part import Part, bounded
from nnjit_studio.compiler.any_size.refusal import refused
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.templates import subject_of
from nnjit_studio.errors import CompileError, ModelError
from nnjit_studio.model.family import Family
from nnjit_studio.model.size import Dim, Size
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.size_tuning import KnownSettings, Table, tile_of

_MOST_SIZES, _LARGEST_POWER = 64, 14
_CHECKED = 8
"""Sizes at the end of an interval, which leave all remainders of most tiles."""


@dataclass
class Tuning:
    """Compiles kernels with what was found at several sizes, else with what won at the sizes at
    hand or at powers of two, else by guess."""

    dims: Sequence[Dim]
    example: Mapping[str, int]
    known: KnownSettings
    compared: int = 0
    taken: int = 0
    refused: list[str] = field(default_factory=list)
    ends: list[Mapping[str, int]] = field(default_factory=list)
    """Sizes up to the ends of intervals: kernels have code of their own there."""

    def compiled(self, part: Part) -> Compiled:
        """See :func:`nnjit_studio.compiler.any_size.kernels.compiled.any_size_kernel`."""
        family = family_of(part.symbolic[0], part.at, self.dims) if self.known.tables else None
        table = self.known.tables.get(family.key) if family else None
        if family is not None and table is not None:
            try:
                made = self._by_table(part, family, table)
            except (CompileError, ModelError) as error:
                self._refuse(part, error)
            else:
                self.compared += 1
                return made
        tile = self._best(part) if self.known.winners else None
        if tile is not None:
            try:
                made = self._kernel(part, tile)
            except (CompileError, ModelError) as error:
                self._refuse(part, error)
            else:
                self.taken += 1
                return made
        return self._kernel(part)

    def notes(self, kernels: int) -> tuple[str, ...]:
        """What a user should know, of so many kernels in all."""
        compared = f"{self.compared} of {kernels} kernels have settings compared at several sizes."
        taken = f"{self.taken} of {kernels} kernels have settings that were tuned at one size."
        told = [*([compared] if self.compared else []), *([taken] if self.taken else [])]
        return (*told, *self.refused)

    def _kernel(self, part: Part, tile: Candidate | None = None) -> Compiled:
        def made(part: Part, within: Within = None) -> Compiled:
            given = part.name, part.at, part.extents, self.dims, part.shapes, tile, part.told
            return any_size_kernel(*given, within)

        bound = bounded(part)
        if bound is None:
            return made(part)
        same, whole, number = bound
        try:
            low, high = (made(same, (whole, number, above)) for above in (False, True))
        except (CompileError, ModelError):
            return made(part)  # which may have one code all the same
        return joined(whole // number, low, high)

    def _refuse(self, part: Part, error: CompileError | ModelError) -> None:
        text = f"Tuned settings do not suit {part.name} at any size: {error.error}"
        self.refused.append(text)

    def _by_table(self, part: Part, family: Family, table: Table) -> Compiled:
        """A kernel for each interval of sizes, as one."""
        each = [self._kernel(part, tile_of(settings)) for _, settings in table]
        made = each[-1]
        if len({kernel.panels for kernels in each for kernel in kernels.code}) > 1:
            raise refused("its intervals want a weight in different panels")
        if len(table) > 1:
            extent = extent_of(family, part, self.dims)
            for (end, _), kernel in reversed(list(zip(table, each, strict=True))[:-1]):
                made = joined(extent // ((end or 0) + 1), kernel, made)
                self.ends += self._up_to(extent, end or 0)
        return made

    def _up_to(self, extent: Size, end: int) -> Iterator[Mapping[str, int]]:
        """Sizes at which an extent ends there, or is some more or less."""
        dim = min(extent.dims, key=str)

        def at(steps: int) -> int:
            return extent.at({**self.example, dim.name: steps * dim.step})

        steps, least = range(dim.high // dim.step + 1), max(1, -(-dim.low // dim.step))
        near = range(end - _CHECKED + 1, end + _CHECKED + 1)
        for n in dict.fromkeys(bisect_left(steps, wanted, least, key=at) for wanted in near):
            if dim.takes(n * dim.step):
                yield {**self.example, dim.name: n * dim.step}

    def _best(self, part: Part) -> Candidate | None:
        """What won at most sizes; of settings that did equally often, those nearest at hand."""
        found: Counter[Candidate] = Counter()
        for sizes in itertools.islice(self._sizes(), _MOST_SIZES):
            program = part.at(sizes)
            winner = self.known.winners.get(workload_for(program, subject_of(program)).key)
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
