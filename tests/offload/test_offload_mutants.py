"""What is taken of a changed loop is what the changed loop computes."""

from __future__ import annotations

from pathlib import Path

import pytest
from offload_mutants import disagreement, lifted, mutants, originals

from nnjit_studio.wasm_file.module import read

PLANTED = Path(__file__).parent / "planted"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["planted-o2", "planted-o3-fast"])
def test_mutants_of_planted_loops(name: str) -> None:
    taken = 0
    for seed, original in enumerate(originals(read((PLANTED / f"{name}.wasm").read_bytes()))[::3]):
        found = lifted(original.data)
        if found is None:
            continue
        assert disagreement(original.data, found, seed) == ""
        for mutant in mutants(original, 1, seed):
            changed = lifted(mutant.data)
            if changed is not None:
                taken += 1
                assert disagreement(mutant.data, changed, seed) == "", mutant.what
    assert taken >= 3
