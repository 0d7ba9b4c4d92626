"""Counts wrong results among mutants of the planted loops: ``python mutants.py PER_LOOP``.

Each mutant is lifted anew; what is taken of it is compared with Wasmtime's run on random memory.
"""

from __future__ import annotations

import sys
from pathlib import Path

from offload_mutants import disagreement, lifted, mutants, originals

from nnjit_studio.wasm_file.module import read

PLANTED = Path(__file__).resolve().parents[2] / "tests/offload/planted"


def main(each: int) -> int:
    made = taken = wrong = 0
    for path in sorted(PLANTED.glob("*.wasm")):
        for seed, original in enumerate(originals(read(path.read_bytes()))):
            for mutant in mutants(original, each, seed):
                made += 1
                found = lifted(mutant.data)
                if found is None:
                    continue
                taken += 1
                if difference := disagreement(mutant.data, found, seed):
                    wrong += 1
                    print(f"{path.stem} {seed} {mutant.what}: {difference}")
    print(f"{made} mutants, {taken} taken, {wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
