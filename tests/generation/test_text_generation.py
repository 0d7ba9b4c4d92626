from __future__ import annotations

import pytest

from nnjit_studio.cli.generate import prompt_ids
from nnjit_studio.errors import UserError
from nnjit_studio.generation.prompts import parse_ids
from nnjit_studio.generation.texts import compare, tokens_per_s
from nnjit_studio.model import Plan, PlanBuffer, PlanStep, Token
from nnjit_studio.workbench.shared_weights import groups_by_weight


def plan(*reads: tuple[str, int]) -> Plan:
    """A plan of kernels that each read one packable weight."""
    offsets = sorted({offset for _, offset in reads})
    buffers = [PlanBuffer("weight", offset, 64, (1, 16)) for offset in offsets]
    steps = [PlanStep("call", name, (offsets.index(offset),)) for name, offset in reads]
    arena = PlanBuffer("arena", 0, 64)
    plain = PlanStep("call", "plain", (len(buffers),))
    return Plan("p", (), (), (*buffers, arena), (*steps, plain, PlanStep("return")), 1024, 64)


def test_workloads_over_one_weight_are_chosen_together() -> None:
    decode = plan(("small", 0), ("small", 64), ("head", 128))
    prefill = plan(("large", 0), ("large", 64), ("wide", 192))
    groups = groups_by_weight([decode, prefill])
    assert sorted(map(sorted, groups)) == [["head"], ["large", "small"], ["wide"]]


def test_groups_grow_together() -> None:
    groups = groups_by_weight([plan(("a", 0), ("b", 64)), plan(("c", 0), ("c", 64))])
    assert groups == [frozenset("abc")]


def test_rate_leaves_the_prompt_out() -> None:
    tokens = [Token(1, 500.0, 1.0), Token(2, 20.0, 1.0), Token(3, 30.0, 1.0)]
    assert tokens_per_s(tokens) == pytest.approx(40)
    assert tokens_per_s(tokens[:1]) == 0


def test_ties_are_told_from_errors() -> None:
    made = [Token(i, 1.0, margin) for i, margin in ((3, 0.5), (4, 2e-6), (5, 0.5))]
    report = compare(made, [(3, 0.0), (9, 1e-6), (8, 0.2)])
    assert (report["same"], report["ties"], report["wrong"]) == (1, 1, 1)
    assert report["smallest_margin"] == 2e-6
    assert [d["index"] for d in report["differing"]] == [1, 2]


def test_ids_are_read_and_checked(tmp_path) -> None:
    path = tmp_path / "ids.txt"
    path.write_text("1, 2\n3")
    assert prompt_ids("", path) == prompt_ids("1,2,3", None) == [1, 2, 3]
    for text, file in (("", None), ("1", path)):
        with pytest.raises(UserError, match="given once"):
            prompt_ids(text, file)
    path.write_text(" ")
    with pytest.raises(UserError, match="prompt is empty"):
        prompt_ids("", path)
    with pytest.raises(UserError, match="cannot be read"):
        prompt_ids("", tmp_path / "none")
    with pytest.raises(UserError, match="--stop holds something else"):
        parse_ids("1,x", "--stop")
    with pytest.raises(UserError, match="negative"):
        parse_ids("-1", "--ids")
