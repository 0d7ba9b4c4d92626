"""Corresponding lines of a kernel's texts, as finely as the compiler can tell.

Scheduled loops and Wasm, by statement: the n-th line that sets a local, or stores to a buffer,
inside one loop is the n-th there too, for no pass changes that order. Where the numbers differ,
all lines of that local in that loop. Tensor IR and the rest, by buffer: a line belongs to the
statements that read, or else write, the buffers that its values come from, or go to; loops by
their variable where a schedule keeps it. A line that belongs to nothing has no partners.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from nnjit_studio.analysis.kernel.facts import (
    WASM_GET,
    WASM_SET,
    Fact,
    flow_of,
    loop_facts,
    spellings,
    variables,
    wasm_facts,
    wgsl_facts,
)

STATEMENT = "by statement and loop"
BUFFER = "by buffer, and by loop variable where the schedule keeps it"

Partners = tuple[frozenset[int], ...]
"""For each line of one text the lines of another, counted from 0."""


@dataclass(frozen=True)
class LineMap:
    """Partners from the first text to the second, and back; ``granularity`` in words."""

    forward: Partners
    back: Partners
    granularity: str

    @classmethod
    def of(cls, forward: Sequence[Iterable[int]], size: int, granularity: str) -> LineMap:
        back: list[set[int]] = [set() for _ in range(size)]
        for line, partners in enumerate(forward):
            for partner in partners:
                back[partner].add(line)
        whole = tuple(map(frozenset, forward))
        return cls(whole, tuple(map(frozenset, back)), granularity)

    def turned(self) -> LineMap:
        return LineMap(self.back, self.forward, self.granularity)

    def then(self, other: LineMap) -> LineMap:
        """Through a text in the middle: as coarse as the coarser of the two."""
        forward = [frozenset(k for j in found for k in other.forward[j]) for found in self.forward]
        return LineMap.of(forward, len(other.back), self.granularity)


def map_loops_to_wasm(loops: str, wasm: str, buffers: Sequence[str]) -> LineMap:
    """Scheduled loops and the Wasm text, after any pass."""
    ours, theirs = loop_facts(loops, buffers), wasm_facts(wasm, buffers)
    forward: list[set[int]] = [set() for _ in ours]
    for mine, yours in _paired(_keyed(ours), _keyed(theirs)):
        for line in mine:
            forward[line] |= yours
    accesses = defaultdict(list)
    for line, fact in enumerate(ours):
        for buffer in (*fact.loads, *fact.stores):
            accesses[buffer].append((line, fact.path))
    for number, fact in enumerate(theirs):
        for buffer in fact.addresses:
            for line, path in accesses[buffer]:
                if path[: len(fact.path)] == fact.path:
                    forward[line].add(number)
    found = LineMap.of(forward, len(theirs), STATEMENT)
    back = _with_temporaries(found.back, wasm)
    return LineMap.of(back, len(ours), STATEMENT).turned()


def _with_temporaries(partners: Partners, wasm: str) -> Partners:
    """A line without partners that sets a local has those of the lines that read it later."""
    found = list(partners)
    used: dict[str, set[int]] = defaultdict(set)
    lines = wasm.splitlines()
    for number in range(len(lines) - 1, -1, -1):
        if not found[number]:
            mine = (used[local] for local in WASM_SET.findall(lines[number]))
            found[number] = frozenset().union(*mine)
        for local in WASM_GET.findall(lines[number]):
            used[local] |= found[number]
    return tuple(found)


def map_program_to(facts: Sequence[Fact], program: str, buffers: Sequence[str]) -> LineMap:
    """Tensor IR and the lines of another text."""
    sources = loop_facts(program, buffers)
    source, target = flow_of(sources), flow_of(facts)
    loop_names = variables(sources)
    forward: list[set[int]] = [set() for _ in sources]
    stores = [line for line, fact in enumerate(sources) if fact.stores]
    for number, fact in enumerate(facts):
        names = {n for s in fact.sets for n in spellings(s)} & loop_names
        if names:
            heads = (i for i, f in enumerate(sources) if f.heads and f.sets[0] in names)
            found = list(heads)
        elif target.constant[number]:
            found = [i for i in stores if source.constant[i]]
        else:
            found = _most_alike(
                (set(fact.stores), set(target.reads[number]) - set(fact.stores)),
                [(i, set(sources[i].stores), set(source.reads[i])) for i in stores],
            )
        for line in found:
            forward[line].add(number)
    return LineMap.of(forward, len(facts), BUFFER)


def _most_alike(
    line: tuple[set[str], set[str]], statements: list[tuple[int, set[str], set[str]]]
) -> list[int]:
    """The statements with most of a line's buffers; what is written decides first."""
    stores, reads = line
    writers = [s for s in statements if s[1] & stores] or statements
    if stores and len(writers) < len(statements) and not reads:
        return [i for i, _, _ in writers]
    shared = [(len((read - written) & reads), i) for i, written, read in writers]
    best = max((n for n, _ in shared), default=0)
    if best == 0:
        return [i for i, written, _ in writers if written & stores]
    return [i for n, i in shared if n == best]


Keyed = dict[Hashable, list[int]]


def _keyed(facts: Sequence[Fact]) -> Keyed:
    """Lines by what they do, in order."""
    found: Keyed = defaultdict(list)
    for line, fact in enumerate(facts):
        if fact.heads:
            found["loop", fact.heads].append(line)
        for name in fact.sets:
            found["set", fact.path, name].append(line)
        for buffer in fact.stores:
            found["store", fact.path, buffer].append(line)
    return found


def _paired(ours: Keyed, theirs: Keyed) -> Iterable[tuple[list[int], set[int]]]:
    for key, mine in ours.items():
        yours = theirs.get(key, [])
        if len(mine) == len(yours) and isinstance(key, tuple) and key[0] != "loop":
            yield from (([a], {b}) for a, b in zip(mine, yours, strict=True))
        else:
            yield mine, set(yours)


def maps_of(
    program: str, loops: str, code: str, form: str, buffers: Sequence[str]
) -> tuple[LineMap | None, LineMap | None, LineMap]:
    """Tensor IR to loops, loops to code, tensor IR to code; WGSL has no loops between."""
    if form == "wgsl":
        return None, None, map_program_to(wgsl_facts(code, buffers), program, buffers)
    first = map_program_to(loop_facts(loops, buffers), program, buffers)
    second = map_loops_to_wasm(loops, code, buffers)
    return first, second, first.then(second)
