"""The guard of offloaded loops, as it runs in a page, against what is wrong on purpose.

Kernels, plans, loops, devices: memory must be as the original loop leaves it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from offload_mutants import memory_of, mutants, ran
from offload_wrong import wrong_kernels, wrong_plans

from nnjit_studio.foreign_wasm.offload.cases import Case, Fault
from nnjit_studio.foreign_wasm.offload.detect import verdicts
from nnjit_studio.foreign_wasm.offload.extract import ENTRY, Extract, extract
from nnjit_studio.foreign_wasm.offload.job import Note, Where, nests_of, offloaded, run_cases
from nnjit_studio.foreign_wasm.offload.rewrite import rewrite
from nnjit_studio.wasm_file.module import read

CALLS = 8
"""One for each kind of memory that the page knows."""
LATE_CALLS = 160
FAULTS = (
    "stale input", "stale inputs", "no dispatch", "result of the run before",
    "last quarter not read", "one element off", "one element NaN", "a bit of an exponent",
    "device lost in the run",
)  # fmt: skip
EARLY, LATE = (0, 1, 2), (3, 40)
"""Runs from which a device is wrong: until the second image, which is the third, and after it."""
EVERY_LATE = 3
"""One nest in so many is called that often."""
LATE_DEVICE = "late device"
MOST_TRIED = 20
"""Changed loops of a nest, of which some trap."""
OUTCOMES = ("wrong", "first check", "later check", "equivalent", "not run")


@dataclass(frozen=True)
class Mutant:
    """Something wrong; ``of`` is ``kernel``, ``plan``, ``loop``, ``device`` or ``LATE_DEVICE``."""

    of: str
    kind: str
    what: str
    case: Case
    swapped: tuple[bytes, str]


@dataclass(frozen=True)
class _Right:
    """A nest that stands alone, rewritten, with its plan."""

    name: str
    original: Extract
    data: bytes
    plan: dict[str, Any]

    def case(self, calls: int = CALLS) -> Case:
        return Case(
            self.name, self.original.data, ENTRY, (), self.original.regions, calls,
            always=True, varied=True,
        )  # fmt: skip

    def planned(self, nest: dict[str, Any]) -> tuple[bytes, str]:
        return self.data, json.dumps({**self.plan, "nests": [nest]})


def right_nests(modules: Sequence[bytes]) -> Iterator[_Right]:
    """The nests of modules that stand alone, each fingerprint once."""
    seen: set[str] = set()
    kernels: dict[str, bytes] = {}
    for data in modules:
        for verdict in verdicts(read(data)):
            found = verdict.found
            if found is None or found.lowered.fingerprint in seen:
                continue
            made = extract(found)
            if made is None:
                continue
            seen.add(found.lowered.fingerprint)
            module = read(made.data)
            nests = nests_of(module, kernels)
            if len(nests) != 1:
                continue
            swapped, plan = offloaded(module, nests)
            yield _Right(verdict.name, made, swapped, json.loads(plan))


def campaign(modules: Sequence[bytes], kernels: int, loops: int, seed: int) -> Iterator[Mutant]:
    """Mutants of each nest: ``kernels`` wrong kernels, ``loops`` changed loops, plans, devices."""
    rng = random.Random(seed)
    for number, right in enumerate(right_nests(modules)):
        (nest,) = right.plan["nests"]
        for kind, what, wrong in wrong_kernels(nest, kernels, rng):
            yield Mutant("kernel", kind, what, right.case(), right.planned(wrong))
        plans = list(wrong_plans(nest))
        for kind, what, wrong in rng.sample(plans, min(2, len(plans))):
            yield Mutant("plan", kind, what, right.case(), right.planned(wrong))
        yield from _loops(right, loops, seed + number)
        yield _device(right, "device", number, CALLS, EARLY[number // 2 % len(EARLY)])
        if number % EVERY_LATE == 0:
            late = number // EVERY_LATE
            yield _device(right, LATE_DEVICE, late, LATE_CALLS, LATE[late % len(LATE)])


def _device(right: _Right, of: str, number: int, calls: int, first: int) -> Mutant:
    """A right kernel on a device that is wrong from a run on."""
    fault = Fault(FAULTS[number % len(FAULTS)], first)
    case = replace(right.case(calls), fault=fault)
    (nest,) = right.plan["nests"]
    return Mutant(of, fault.kind, f"from run {first}", case, right.planned(nest))


def _loops(right: _Right, count: int, seed: int) -> Iterator[Mutant]:
    """The plan of the right loop, the code of another that ends without a trap."""
    nests = nests_of(read(right.original.data), {})
    places = [(nest.verdict.function, nest.found) for nest in nests]
    memory = memory_of(right.original, seed)
    every = mutants(right.original, MOST_TRIED, seed)
    for mutant in islice((m for m in every if ran(m.data, memory) is not None), count):
        case = replace(right.case(), module=mutant.data)
        data = rewrite(read(mutant.data), places)
        yield Mutant("loop", "other instruction", mutant.what, case, (data, json.dumps(right.plan)))


def run_campaign(
    found: Sequence[Mutant], where: Where, note: Note, batch: int = 100
) -> list[dict[str, Any]]:
    """What the guard did with each mutant, in pages of ``batch`` of them.

    Raises
    ------
    UserError, TargetError, PageError
    """
    rows: list[dict[str, Any]] = []
    for first in range(0, len(found), batch):
        part = found[first : first + batch]
        cases = [replace(m.case, name=str(i)) for i, m in enumerate(part)]
        swapped = {str(i): m.swapped for i, m in enumerate(part)}
        folder = where.folder / str(first)  # a page reads its job as soon as it is there
        folder.mkdir()
        answers, _ = run_cases(
            cases, "jspi", replace(where, folder=folder), lambda _: None, {}, swapped
        )
        rows += [_row(m, answer) for m, answer in zip(part, answers, strict=True)]
        note(f"{len(rows)} of {len(found)}: {dict(Counter(r['outcome'] for r in rows))}")
    return rows


def _row(mutant: Mutant, answer: dict[str, Any]) -> dict[str, Any]:
    (status,) = answer["status"]
    wrong, success = answer["wrong"], answer["counters"]["success"]
    if wrong:
        outcome = "wrong"
    elif status["state"] == "off":
        outcome = "later check" if success else "first check"
    else:
        outcome = "equivalent" if success else "not run"
    return {
        "of": mutant.of,
        "kind": mutant.kind,
        "loop": mutant.case.name,
        "what": mutant.what,
        "outcome": outcome,
        "reason": status["reason"],
        "text": status["text"],
        "wrong_calls": len(wrong),
        "wrong": wrong[:1],
        "caught": status["state"] == "off",
        "gpu_calls": success,
    }


def tally(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How many mutants of each sort had which outcome."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        found.setdefault(row["of"], Counter())[row["outcome"]] += 1
    return {of: {o: counts[o] for o in OUTCOMES} for of, counts in found.items()}
