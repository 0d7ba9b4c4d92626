"""Our own kernels under the rules for other people's."""

from collections.abc import Iterator

import pytest
from replay_groups import GROUPS

from nnjit_studio.foreign_wasm.inspection.facts import facts
from nnjit_studio.foreign_wasm.inspection.rules import warnings
from nnjit_studio.wasm_file.module import read

CHOSEN = ("wasm_matmul", "wasm_batch_matmul", "wasm_conv2d", "wasm_attention", "wasm_softmax")


def kernels() -> Iterator[tuple[str, bytes]]:
    for group in CHOSEN:
        for name, data in GROUPS[group]():
            if name.endswith("| default | relaxed-simd"):
                yield name, data


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_first_guess_of_each_kernel_has_no_warning() -> None:
    found = {}
    for name, data in kernels():
        module = read(data)
        functions = list(facts(module, module.defined))
        assert all(f.live_vectors for f in functions if f.simd > 100), name
        found[name] = [w.text for w in warnings(functions)]
    assert len(found) > 20
    assert {name: texts for name, texts in found.items() if texts} == {}
