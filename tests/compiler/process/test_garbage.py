"""Which garbage a compile process looks for once a model is loaded."""

import gc
import multiprocessing
import weakref

import pytest

from nnjit_studio.compiler.process import codec, worker
from nnjit_studio.compiler.process.handlers.registry import State


class _Cycle:
    def __init__(self) -> None:
        self.own = self


def test_what_was_there_before_the_first_model_is_left_alone_and_a_model_s_garbage_goes() -> None:
    state = State(lambda _: None, lambda _: None)
    gc.disable()
    before = weakref.ref(_Cycle())
    gc.freeze()
    of_a_model = weakref.ref(_Cycle())
    gc.enable()
    worker._settle(state)
    assert before() is not None and of_a_model() is None
    worker._settle(state)
    assert before() is None, "what a job leaves may be garbage when the next one has ended"


def test_a_kernel_that_is_spelled_out_is_not_looked_through_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search takes 40 to 80 ms, and a compile service adopts kernel after kernel."""
    searches: list[State] = []

    def settle(state: State) -> None:
        searches.append(state)
        state.settled = True

    monkeypatch.setattr(worker, "_settle", settle)
    mine, theirs = multiprocessing.Pipe()
    state = State(lambda _: None, lambda _: None)
    for spec in ("matmul:3x4x5:f32", "matmul:3x4x6:f32"):
        codec.send(theirs, "define", (spec,))
        worker._answer(theirs, state, *codec.receive(mine))
        assert codec.receive(mine)[0] == "reply"
    assert searches == [state]
