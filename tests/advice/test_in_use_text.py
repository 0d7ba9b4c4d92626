"""What the rows in use are worth together, in a sentence that no busy machine makes a ratio of."""

from __future__ import annotations

from dataclasses import replace

from advices import ADVICE, SET, measured

from nnjit_studio.advice.records import IMPOSSIBLE, MEASURED, MEASURING
from nnjit_studio.advice.text import set_in_use


def test_it_tells_time_gain_error_and_memory() -> None:
    found = measured(9.0, 2.2, 1e-3)
    done = replace(SET, state=MEASURED, measured=found)
    assert set_in_use(done, ADVICE) == (
        "Measured: 9 ms [8.82..9.18] for 20 ms, 2.20x [2.16..2.24]; largest error 1.0e-3; "
        "memory 24.4 MiB as before."
    )
    early = replace(SET, state=MEASURING, measured=replace(found, outputs=()))
    assert set_in_use(early, ADVICE).startswith("Measured so far: 9 ms")
    assert set_in_use(replace(SET, state=MEASURING), ADVICE) == ""


def test_a_machine_too_busy_to_tell_has_no_second_time() -> None:
    busy = replace(SET, state=MEASURED, measured=replace(measured(9.0, 2.2), rate=0.4))
    assert set_in_use(busy, ADVICE).startswith("Measured: about 9 ms [8.8..9.2]; machine too busy")
    assert "20 ms" not in set_in_use(busy, ADVICE)


def test_a_set_that_does_not_run_says_why() -> None:
    broken = replace(SET, state=IMPOSSIBLE, problem="No adapter.")
    assert set_in_use(broken, ADVICE) == "They could not be measured together: No adapter."
