"""The onnx package's first model of each operator; ``make onnx-cases`` runs all of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx_cases import CONSTANT, REFUSED, RIGHT, RUNTIME, TABLE, first_cases, outcome

NAMED = ("The operator ", "The input ", "The output ")
"""How a refusal begins that says what is refused."""


@pytest.mark.filterwarnings("ignore")
def test_each_operator_is_right_or_refused_by_name(tmp_path: Path) -> None:
    told = set(re.findall(r"^\| ([A-Z]\w*) \|", TABLE.read_text(encoding="utf-8"), re.MULTILINE))
    met = set()
    with np.errstate(all="ignore"):
        for case in first_cases():
            met.add(case.op)
            found = outcome(case, tmp_path)
            assert found.kind in (RIGHT, CONSTANT, RUNTIME, REFUSED), (case.name, found.why)
            assert found.kind != REFUSED or found.why.startswith(NAMED), (case.name, found.why)
    assert met == told, "run `make onnx-cases`"
