"""The template table: its rows agree with each other, with spellings and with spaces."""

from __future__ import annotations

import pytest

from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import SPELLING, SPELLINGS, program_for
from nnjit_studio.compiler.templates import TEMPLATES, match
from nnjit_studio.space import registry
from nnjit_studio.tuner.search.cost_model import PRIOR_WEIGHTS, family_of

EXAMPLES = {
    "conv2d": "1x4x9x9x8x3x3x1x1x1x1",
    "attention": "2x8x8x16",
    "batch_matmul": "2x5x8x12",
    "batch_matmul_dot": "2x5x8x12",
}


@pytest.mark.parametrize("kind", SPELLINGS)
def test_what_is_spelt_has_the_template_and_the_space_of_its_row(kind: str) -> None:
    program = program_for(f"{kind}:{EXAMPLES.get(kind, '5x8x12')}:f32")
    found = match(program)
    assert found is not None
    assert kind in {spelling.kind for spelling in found.template.spellings}
    workload = workload_for(program, found.subject)
    assert workload.tunable and workload.kind in found.template.space.kinds
    assert family_of(workload) in PRIOR_WEIGHTS
    assert f"{kind}:{SPELLINGS[kind].dims}:f32" in SPELLING


def test_every_space_has_a_template_and_every_kind_one_space() -> None:
    joined = {id(template.space) for template in TEMPLATES}
    assert joined == {id(row) for row in registry.ROWS}
    kinds = [kind for row in registry.ROWS for kind in row.kinds]
    assert len(kinds) == len(set(kinds))
    assert len({template.name for template in TEMPLATES}) == len(TEMPLATES)
