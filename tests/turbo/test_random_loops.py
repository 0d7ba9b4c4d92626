"""A short version of the campaign: random loops, and wrong rewrites."""

from __future__ import annotations

import pytest
from campaign import plant, rewrite_and_run

from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine, engine_of


@pytest.fixture(scope="module")
def node() -> Engine:
    return engine_of("node", no_sandbox=True)


def test_random_loops_are_proven_and_run_like_their_originals(node: Engine) -> None:
    result = rewrite_and_run(40, 2, node, cases=4)
    assert result.proven == result.loops == 40
    assert result.equal == result.cases
    assert result.ended > result.cases // 2


def test_no_wrong_rewrite_is_accepted(node: Engine) -> None:
    result = plant(60, 2, node, cases=4)
    assert (result.offered, result.accepted) == (60, 0)
    # What was planted is really wrong: most of it shows on random memory.
    assert result.run_different > result.run // 2
