"""Random loops rewritten and run; wrong rewrites offered to the proof; `make turbo-campaign`."""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from planted import planted
from random_loops import random_module

from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine, engine_of
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings
from nnjit_studio.foreign_wasm.turbo.gate.pairs import executed, write_pairs
from nnjit_studio.foreign_wasm.turbo.loops.find import Function, Loop, decoded, vector_loops
from nnjit_studio.foreign_wasm.turbo.loops.prove import difference
from nnjit_studio.foreign_wasm.turbo.loops.rewrite import rebuilt
from nnjit_studio.foreign_wasm.turbo.loops.rules import broadcasts
from nnjit_studio.foreign_wasm.turbo.loops.schedule import plans
from nnjit_studio.foreign_wasm.turbo.loops.variants import SCHEDULE, Variant
from nnjit_studio.wasm_file.module import Module, read


@dataclass(frozen=True)
class Rewritten:
    """Random loops: how many were rewritten, proven, and ran like their originals."""

    loops: int
    proven: int
    cases: int
    ended: int
    equal: int


@dataclass(frozen=True)
class Planted:
    """Wrong rewrites: how many were offered and accepted; how many wrong results running showed."""

    offered: int
    accepted: int
    run: int
    run_different: int


def loops_of(module: Module, count: int) -> Iterator[tuple[Function, Loop]]:
    """The first so many; some are left alone for what they load and do not use."""
    found = (
        (function, loop)
        for function in (decoded(module, index) for index in module.defined)
        for loop in vector_loops(function)
        if isinstance(loop, Loop)
    )
    yield from itertools.islice(found, count)


def rewrite_and_run(count: int, seed: int, engine: Engine, cases: int) -> Rewritten:
    """Rewrite random loops with every order, prove all, and run the last of each."""
    module = read(random_module(3 * count, seed))
    new: dict[int, bytes] = {}
    proven = total = 0
    for function, loop in loops_of(module, count):
        graph = broadcasts(loop.graph)
        for plan in plans(graph):
            choice = {loop.first: (loop, Variant(SCHEDULE, graph, plan))}
            new[function.index] = rebuilt(function, choice)
            wrong = difference(function, new[function.index], False)
            proven += not wrong
            total += 1
            if wrong:
                print(f"function {function.index}: {wrong}")
    with tempfile.TemporaryDirectory() as folder:
        rows, _ = executed(
            write_pairs(module, new, Path(folder)), engine, Path(folder), Settings(seed, cases), []
        )
    for row in rows:
        if not row.right or row.error:
            print(row)
    assert proven == total, (proven, total)
    ran = [sum(getattr(row, name) for row in rows) for name in ("cases", "ended", "equal")]
    return Rewritten(len(rows), len(new), *ran)


def plant(count: int, seed: int, engine: Engine, cases: int) -> Planted:
    """Offer wrong rewrites to the proof; run them, too, to see that they are wrong."""
    rng = random.Random(seed)
    module = read(random_module(count, seed + 1))
    candidates = list(loops_of(module, count // 4))
    accepted = offered = run = different = 0
    while offered < count:
        new: dict[int, bytes] = {}
        for function, loop in candidates:
            body = planted(rng, function, loop) if offered < count else None
            if body is None:
                continue
            offered += 1
            new[function.index] = body
            if not difference(function, body, False):
                accepted += 1
                print(f"accepted in function {function.index}")
        with tempfile.TemporaryDirectory() as folder:
            rows, _ = executed(
                write_pairs(module, new, Path(folder)),
                engine,
                Path(folder),
                Settings(seed, cases),
                [],
            )
        run += len(rows)
        different += sum(not row.right for row in rows)
    return Planted(offered, accepted, run, different)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=1000)
    parser.add_argument("--planted", type=int, default=500)
    parser.add_argument("--cases", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", default="node")
    given = parser.parse_args()
    engine = engine_of(given.target, no_sandbox=True)
    loops = rewrite_and_run(given.loops, given.seed, engine, given.cases)
    wrong = plant(given.planted, given.seed, engine, given.cases)
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    head = {"date": date, "engine": engine.version, "seed": given.seed}
    print(json.dumps({**head, "rewritten": vars(loops), "planted": vars(wrong)}))
    assert loops.equal == loops.cases and wrong.accepted == 0


if __name__ == "__main__":
    main()
