"""A small part of the campaign of ``make wasm-fuzz``, with fixed seeds."""

import pytest
from wasm_fuzz import mutants, same, smith, survives

MODULES = 12


@pytest.fixture(scope="module")
def modules() -> list[bytes]:
    return [smith(seed) for seed in range(MODULES)]


def test_random_modules_are_the_same_again(modules: list[bytes]) -> None:
    assert sum(same(data) for data in modules) > MODULES


def test_damaged_modules_are_refused_or_read(modules: list[bytes]) -> None:
    outcomes = {survives(data) for data in mutants(modules, 300, seed=7)}
    assert outcomes >= {"refused", "read"}
