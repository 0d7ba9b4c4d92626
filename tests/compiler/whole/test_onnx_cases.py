"""The onnx package's first model of each operator; ``make onnx-cases`` runs all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_cases import CONSTANT, REFUSED, RIGHT, RUNTIME, TABLE, first_of_each, onnx_cases, outcome

NAMED = ("The operator ", "The input ", "The output ")
"""How a refusal begins that says what is refused."""


@pytest.mark.filterwarnings("ignore")
def test_each_operator_is_right_or_refused_by_name(tmp_path: Path) -> None:
    table = TABLE.read_text(encoding="utf-8")
    with np.errstate(all="ignore"):
        for case in first_of_each(onnx_cases()):
            found = outcome(case, tmp_path)
            assert found.kind in (RIGHT, CONSTANT, RUNTIME, REFUSED), (case.name, found.why)
            assert found.kind != REFUSED or found.why.startswith(NAMED), (case.name, found.why)
            assert f"| {case.op} |" in table, "run `make onnx-cases`"
