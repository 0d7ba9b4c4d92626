"""The lab's kernels: for products alone, in no plan that is written, told in what is printed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nnjit_studio.compiler.wgsl.templates.rounded_product import ROUNDING
from nnjit_studio.compiler.wgsl.templates.subgroup_matrix import FEATURES
from nnjit_studio.foreign_wasm.offload import report
from nnjit_studio.foreign_wasm.offload.detect import Verdict, verdicts
from nnjit_studio.foreign_wasm.offload.job import LAB, case_of, lab_case, nests_of, offloaded
from nnjit_studio.foreign_wasm.offload.plan import in_f16
from nnjit_studio.wasm_file.module import read

PLANTED = Path(__file__).parent / "planted" / "planted-o2.wasm"


@pytest.fixture(scope="module")
def found() -> dict[str, Verdict]:
    return {v.name: v for v in verdicts(read(PLANTED.read_bytes())) if v.found}


def test_products_have_a_kernel_in_f16_and_written_plans_have_none(
    found: dict[str, Verdict],
) -> None:
    module = read(PLANTED.read_bytes())
    products = [v.function for name, v in found.items() if name.startswith("matmul")]
    others = [found["elementwise_add"].function, found["dot_plain"].function]
    nests = nests_of(module, {}, {*products, *others})
    lab = {nest.verdict.name: in_f16(nest) for nest in nests}
    assert {name for name, made in lab.items() if made} == {
        n for n in lab if n.startswith("matmul")
    }
    _, plan = offloaded(module, nests)
    assert {nest["rounding"] for nest in json.loads(plan)["nests"]} == {0.0}


def test_a_case_of_the_lab(found: dict[str, Verdict]) -> None:
    case = case_of(found["matmul_alpha_beta"])
    assert case is not None
    made = lab_case(replace(case, name="7"))
    assert made is not None
    assert made[0].name == "7" + LAB
    (nest,) = json.loads(made[1][1])["nests"]
    assert nest["rounding"] == ROUNDING
    assert nest["fingerprint"].endswith("-f16")
    assert set(nest["kernel"]["requires"]) == set(FEATURES)
    add = case_of(found["elementwise_add"])
    assert add is not None and lab_case(add) is None


def test_the_output_tells_of_the_rounding(found: dict[str, Verdict]) -> None:
    status: dict[str, Any] = {"state": "on", "reason": "", "text": "", "loopMs": 9.0, "gpuMs": 2.0}
    row = {"name": "0 f16", "wrong": [], "status": [{**status, "price": {"total": 2.0}}]}
    loop = report.priced_in_f16(report.loop_json(found["matmul_naive"]), row)
    text = report.text({"loops": [loop]}, False)
    assert "operands rounded to f16, checked within 0.4%: the GPU takes 2.000 ms" in text
