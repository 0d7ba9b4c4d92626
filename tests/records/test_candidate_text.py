"""Settings of a candidate, as a person writes them: what is wrong is told in words."""

from __future__ import annotations

import pytest

from nnjit_studio.errors import UserError
from nnjit_studio.records.candidate import Candidate

WHOLE = "x0=8,y0=6,r0=4,x1=8,y1=6,r1=768"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x0=99", "it does not set y0, r0, x1, y1, r1"),
        ("x0", "it does not set y0, r0, x1, y1, r1"),
        ("", "unknown setting ''"),
        (f"{WHOLE},z=3", "unknown setting 'z'"),
        (WHOLE.replace("x0=8", "x0"), "x0 must be a number of at least 1"),
        (WHOLE.replace("x0=8", "x0=a"), "x0 must be a number of at least 1"),
        (WHOLE.replace("x0=8", "x0=-8"), "x0 must be a number of at least 1"),
        (WHOLE.replace("x0=8", "x0=0"), "x0 must be a number of at least 1"),
    ],
)
def test_what_is_wrong_is_told(text: str, why: str) -> None:
    with pytest.raises(UserError) as raised:
        Candidate.parse(text)
    assert raised.value.error == f"The candidate {text!r} cannot be read: {why}."


def test_what_is_written_is_read() -> None:
    candidate = Candidate.parse(f" {WHOLE}, ".rstrip(", "))
    assert Candidate.parse(str(candidate)) == candidate
