"""Orders of a loop's values in which few vectors live at once.

Compilers of engines keep a module's order of vector values more or less, and hold on the stack what
exceeds the processor's registers. Here values are computed shortly before they are needed: the
next step is always one that adds least to the number of live vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nnjit_studio.foreign_wasm.turbo.loops.graph import LoopGraph
from nnjit_studio.foreign_wasm.turbo.loops.operators import LOCAL_GET


@dataclass(frozen=True)
class Plan:
    """Which values get a local of their own, in which order.

    Attributes
    ----------
    steps
        Such values; all others are computed where they are taken.
    peak
        Most vectors that live at once.
    """

    steps: tuple[int, ...]
    peak: int


def peak_of(graph: LoopGraph, order: Sequence[int]) -> int:
    """Most vectors that live at once when values are computed in this order.

    A vector of before that the loop does not change lives through all of it; a final lives to its
    end. An operand that is taken for the last time makes room for the result.
    """
    place = {number: at for at, number in enumerate(order)}
    end = len(order)
    last = {n: end for n in graph.roots}
    for number in order:
        for arg in graph.nodes[number].args:
            last[arg] = max(last.get(arg, -1), place[number])
    replaced = graph.replaced
    vectors = [n for n in last if graph.is_vector(n)]
    changes = [0] * (end + 2)
    for number in vectors:
        given = graph.nodes[number].code == LOCAL_GET
        kept = given and number not in replaced
        changes[0 if given else place.get(number, 0)] += 1
        changes[end + 1 if kept else last[number] + (last[number] == end)] -= 1
    live = most = 0
    for change in changes:
        live += change
        most = max(most, live)
    return most


def plans(graph: LoopGraph) -> Iterator[Plan]:
    """Orders to try, each a different compromise; the first holds fewest vectors."""
    seen: set[tuple[int, ...]] = set()
    for ahead in (0, 1):
        steps = tuple(_Scheduler(graph, ahead).run())
        if steps not in seen:
            seen.add(steps)
            yield Plan(steps, peak_of(graph, evaluated(graph, steps)))


def evaluated(graph: LoopGraph, steps: Iterable[int]) -> tuple[int, ...]:
    """All values in the order in which a plan computes them."""
    order: dict[int, None] = {}

    def visit(number: int) -> None:
        if number not in order:
            for arg in graph.nodes[number].args:
                visit(arg)
            order[number] = None

    for number in (*steps, *graph.finals.values(), graph.condition):
        visit(number)
    return tuple(order)


class _Scheduler:
    """Picks the cheapest chain value that can be computed, until none is left.

    Chain values depend on vectors that the loop carries from iteration to iteration: the
    accumulators. The others are loads and what is made of them; those that several values take
    are computed when the first of these is.
    """

    def __init__(self, graph: LoopGraph, ahead: int) -> None:
        self._graph, self._nodes = graph, graph.nodes
        self._ahead = ahead
        self._uses = graph.uses()
        self._chain = self._carried()
        self._shared = {
            n
            for n in graph.reachable()
            if self._uses[n] > 1 and n not in self._chain and not self._nodes[n].given
        }
        self._needs = {n: self._taken(n) for n in (*self._chain, *self._shared)}
        self._left = Counter[int]()
        for counts in self._needs.values():
            self._left.update(counts)
        for root in graph.roots:
            self._left[root] += 1
        self._done: dict[int, None] = {}

    def run(self) -> Iterator[int]:
        todo = dict.fromkeys(self._chain)
        while todo:
            ready = [n for n in todo if not self._waits(n)]
            best = min(ready, key=self._price)
            del todo[best]
            yield from self._compute(best)

    def _carried(self) -> dict[int, None]:
        """Vector values that depend on a vector of before that the loop replaces."""
        found: dict[int, None] = {}
        starts = {n for n in self._graph.replaced if self._graph.is_vector(n)}
        for number in self._graph.reachable():
            args = self._nodes[number].args
            if self._graph.is_vector(number) and any(a in found or a in starts for a in args):
                found[number] = None
        return found

    def _taken(self, number: int) -> Counter[int]:
        """Chain and shared values that computing a value takes, and how often."""
        taken = Counter[int]()
        for arg in self._nodes[number].args:
            if arg in self._chain or arg in self._shared:
                taken[arg] += 1
            elif not self._nodes[arg].given:
                taken.update(self._taken(arg))
        return taken

    def _waits(self, number: int) -> bool:
        """Whether a chain value below it, through shared values, is not computed yet."""
        seen: set[int] = set()
        stack = [number]
        while stack:
            for arg in self._needs[stack.pop()]:
                if arg in self._done or arg in seen:
                    continue
                if arg in self._chain:
                    return True
                seen.add(arg)
                stack.append(arg)
        return False

    def _price(self, number: int) -> tuple[int, int, int]:
        """Vectors more than before, vectors to be computed first, the original's order."""
        missing = self._missing(number)
        fresh = sum(map(self._graph.is_vector, missing))
        freed = sum(
            self._left[n] == count and self._graph.is_vector(n) and n not in self._chain
            for n, count in self._needs[number].items()
        )
        return (fresh - freed if not self._ahead else fresh, fresh, number)

    def _missing(self, number: int) -> dict[int, None]:
        """Shared values to be computed first, operands before users."""
        found: dict[int, None] = {}

        def visit(value: int) -> None:
            for arg in self._needs[value]:
                if arg in self._shared and arg not in self._done and arg not in found:
                    visit(arg)
                    found[arg] = None

        visit(number)
        return found

    def _compute(self, number: int) -> Iterator[int]:
        for arg in (*self._missing(number), number):
            self._done[arg] = None
            self._left.subtract(self._needs[arg])
            yield arg
