"""Browsers in which pages of a verdict or of advice run."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, cast

import pytest

from nnjit_studio.cli.verdict import compare
from nnjit_studio.records.target_options import TargetOptions


def test_a_browser_of_advice_is_started_with_the_adapter_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Chromium without a display had none on Linux, so advice never measured WebGPU there."""
    given: list[dict[str, Any]] = []

    def opened(*_: object, **how: Any) -> nullcontext[None]:
        given.append(how)
        return nullcontext()

    monkeypatch.setattr(compare, "open_page", opened)
    monkeypatch.setattr(compare.browsers, "find", lambda name: name)
    target = TargetOptions("chromium")
    for visits in (compare.page_visits(target, "hardware"), compare.page_visits(target)):
        with visits.visit(cast(Any, None), "models.html"):
            pass
    assert given == [{"gpu": "hardware"}, {"gpu": ""}]
