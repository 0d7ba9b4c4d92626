"""Two builds of a module compared: which functions are the same, changed, new or gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from nnjit_studio.foreign_wasm.inspection.facts import FunctionFacts
from nnjit_studio.foreign_wasm.inspection.survey import Survey

MINIFIED = 2
"""Names of this length or shorter come from a minifier, which gives them anew in each build."""


MANY_BLOCKS = 8
"""Functions with fewer have counts in common by chance."""
CHANGE = 2
"""Functions that differ in size by more than this factor are not taken for the same by counts."""


@dataclass(frozen=True)
class Pair:
    """A function in both builds, and by what it was recognised: name, bytes, opcodes or counts."""

    before: FunctionFacts
    after: FunctionFacts
    by: str

    @property
    def growth(self) -> int:
        """Bytes that it has gained."""
        return self.after.bytes - self.before.bytes


@dataclass(frozen=True)
class Comparison:
    """Two builds; ``changed`` has the largest difference first, ``same`` counts equal code."""

    before: Survey
    after: Survey
    same: int
    changed: tuple[Pair, ...]
    added: tuple[FunctionFacts, ...]
    removed: tuple[FunctionFacts, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "file": str(self.before.path),
            "bytes": self.before.nbytes,
            "same": self.same,
            "changed": [
                {
                    "index": pair.after.index,
                    "index_before": pair.before.index,
                    "name": self.after.name(pair.after.index),
                    "by": pair.by,
                    "bytes": pair.after.bytes,
                    "bytes_before": pair.before.bytes,
                    "blocks": pair.after.blocks,
                    "blocks_before": pair.before.blocks,
                }
                for pair in self.changed
            ],
            "added": [{"index": f.index, "bytes": f.bytes} for f in self.added],
            "removed": [{"index": f.index, "bytes": f.bytes} for f in self.removed],
        }


def compare(before: Survey, after: Survey) -> Comparison:
    """Match the functions of two builds: by name, bytes, opcodes, or unique counts.

    Functions with equal opcodes count as the same: indices differ in every build.
    """
    old, new = list(before.functions), list(after.functions)
    pairs: list[Pair] = []
    for by, key_before, key_after, unique in (
        ("name", _named(before), _named(after), True),
        ("bytes", _digest, _digest, False),
        ("opcodes", _shape, _shape, False),
        ("counts", _counts, _counts, True),
    ):
        found = _matched(old, new, key_before, key_after, unique)
        if by == "counts":
            found = [(a, b) for a, b in found if 1 / CHANGE <= b.bytes / a.bytes <= CHANGE]
        pairs += (Pair(a, b, by) for a, b in found)
        taken_old, taken_new = {a.index for a, _ in found}, {b.index for _, b in found}
        old = [f for f in old if f.index not in taken_old]
        new = [f for f in new if f.index not in taken_new]
    changed = [pair for pair in pairs if pair.before.shape != pair.after.shape]
    return Comparison(
        before,
        after,
        len(pairs) - len(changed),
        tuple(sorted(changed, key=lambda pair: (-abs(pair.growth), pair.after.index))),
        tuple(sorted(new, key=lambda f: -f.bytes)),
        tuple(sorted(old, key=lambda f: -f.bytes)),
    )


Key = Callable[[FunctionFacts], "Hashable | None"]


def _named(survey: Survey) -> Key:
    def key(f: FunctionFacts) -> Hashable | None:
        name = survey.name(f.index)
        return name if len(name) > MINIFIED else None

    return key


def _digest(f: FunctionFacts) -> Hashable | None:
    return f.digest


def _shape(f: FunctionFacts) -> Hashable | None:
    return f.shape or None


def _counts(f: FunctionFacts) -> Hashable | None:
    if f.blocks < MANY_BLOCKS:
        return None
    return (f.blocks, f.locals, f.loops, f.simd, f.jump_table, len(f.callees))


def _matched(
    old: Iterable[FunctionFacts],
    new: Iterable[FunctionFacts],
    key_before: Key,
    key_after: Key,
    unique: bool,
) -> list[tuple[FunctionFacts, FunctionFacts]]:
    """Functions of equal keys, in their order; with ``unique`` only keys that occur once."""
    by_key: dict[Hashable, list[FunctionFacts]] = defaultdict(list)
    of_new: dict[Hashable, list[FunctionFacts]] = defaultdict(list)
    for functions, key, into in ((old, key_before, by_key), (new, key_after, of_new)):
        for f in functions:
            if (value := key(f)) is not None:
                into[value].append(f)
    return [
        pair
        for value, before in by_key.items()
        if value in of_new and not (unique and (len(before) > 1 or len(of_new[value]) > 1))
        for pair in zip(before, of_new[value], strict=False)
    ]
