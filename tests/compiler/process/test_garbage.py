"""Which garbage a compile process looks for once a model is loaded."""

import gc
import weakref

from nnjit_studio.compiler.process import worker
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
