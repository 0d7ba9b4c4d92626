"""Random modules of wasm-smith, and modules with changed bytes, through the reader.

A small part runs in the tests; all of it with ``make wasm-fuzz``:

    python tests/wasm_file/wasm_fuzz.py --modules 10000 --mutants 10000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from nnjit_studio.errors import WasmError
from nnjit_studio.foreign_wasm.inspection.facts import facts
from nnjit_studio.foreign_wasm.inspection.rules import warnings
from nnjit_studio.support.programs import find_program
from nnjit_studio.wasm_file.edit import replace
from nnjit_studio.wasm_file.module import read
from nnjit_studio.wasm_file.round_trip import round_trip

FEATURES = "tail-call gc exceptions memory64 multi-value reference-types relaxed-simd simd threads"
SECONDS = 5.0
"""No module of a few kilobytes takes longer, however it is damaged."""


def smith(seed: int) -> bytes:
    """A valid random module, the same for the same seed; it uses every proposal it can."""
    noise = random.Random(seed).randbytes(12_000)
    flags = [f"--{name}-enabled=true" for name in FEATURES.split()]
    done = subprocess.run(
        [
            str(find_program("wasm-tools")),
            "smith",
            *flags,
            "--max-memories",
            "2",
            "--min-funcs",
            "6",
        ],
        input=noise,
        capture_output=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr.decode())
    return done.stdout


def mutants(modules: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """Modules with a few bytes changed, cut out, doubled or put in."""
    choice = random.Random(seed)
    for _ in range(count):
        data = bytearray(choice.choice(modules))
        for _ in range(choice.choice((1, 1, 2, 8))):
            at = choice.randrange(8, max(9, len(data)))
            end = at + choice.choice((1, 1, 2, 5, 40))
            kind = choice.randrange(5)
            if kind == 0:
                data[at : at + 1] = bytes([choice.randrange(256)])
            elif kind == 1:
                data[at : at + 1] = b"\xff\xff\xff\xff\x0f"
            elif kind == 2:
                del data[at:end]
            elif kind == 3:
                data[at:at] = data[at:end]
            else:
                data[at:at] = choice.randbytes(end - at)
        yield bytes(data)


def same(data: bytes) -> int:
    """Check that a valid module is read whole; returns its number of functions."""
    trip = round_trip(data)
    if trip.unknown or trip.identical + trip.padded != trip.functions:
        raise AssertionError(f"not understood: {trip}")
    found = list(facts(read(data), read(data).defined))
    # Vectors among instructions of garbage collection are not followed; all else is read.
    problems = [f.problem for f in found if f.problem and not f.instructions]
    if problems:
        raise AssertionError(f"not read: {problems}")
    return trip.functions


def survives(data: bytes) -> str:
    """What becomes of a damaged module: an error in one sentence, or a table of it."""
    begun = time.process_time()
    try:
        module = read(data)
        found = list(facts(module, module.defined))
        list(warnings(found))
        if replace(module, {f.index: module.body(f.index) for f in found}) != data:
            raise AssertionError("copied bodies change the module")
        outcome = "read, with functions left alone" if any(f.problem for f in found) else "read"
    except WasmError as e:
        if not e.error.endswith(".") or "\n" in e.error:
            raise AssertionError(f"no sentence: {e.error}") from e
        outcome = "refused"
    if time.process_time() - begun > SECONDS:
        raise AssertionError("it took too long")
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=10_000)
    parser.add_argument("--mutants", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("out/wasm-fuzz"))
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    bad = functions = 0
    kept: list[bytes] = []
    for n in range(given.modules):
        data = smith(given.seed * 1_000_000 + n)
        kept = [*kept, data][-500:]
        try:
            functions += same(data)
        except Exception as e:
            bad += 1
            (given.keep / f"module-{n}.wasm").write_bytes(data)
            print(f"module {n}: {type(e).__name__}: {e}"[:300])
    outcomes: Counter[str] = Counter()
    for n, data in enumerate(mutants(kept, given.mutants, given.seed)):
        try:
            outcomes[survives(data)] += 1
        except Exception as e:
            bad += 1
            (given.keep / f"mutant-{n}.wasm").write_bytes(data)
            print(f"mutant {n}: {type(e).__name__}: {e}"[:300])
    print(f"{given.modules} random modules with {functions} functions, {given.mutants} mutants ")
    print(f"{dict(outcomes)}; {bad} failures.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
