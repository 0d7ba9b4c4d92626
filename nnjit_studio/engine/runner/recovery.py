"""Recovery from lost pages and GPU devices: their contents are sent again, calls repeated."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.connection import LOST_HINT, PageLost, RequestError
from nnjit_studio.engine.runner.requests import Model
from nnjit_studio.errors import PageError
from nnjit_studio.records import Fixture, Kernel

PAGE_BACK_S = 60.0
"""How long a browser that crashed may take until its page is back."""
MOST_LOSSES = 3
"""One after another without a success: then the page or its GPU is given up."""
GPU_LOST, GPU_MEMORY = "gpu-lost", "gpu-memory"
"""Codes of errors that only a page with a GPU gives (docs/webgpu.md)."""

T = TypeVar("T")


class GpuGone(PageError):
    """The GPU was lost several times in a row, or cannot hold the model: Wasm still runs."""


@dataclass
class Held:
    """What the page holds; ``fixture`` comes with its number of threads."""

    model: Model | None = None
    kernels: dict[tuple[str, bool], Kernel] = field(default_factory=dict)
    """By workload, and whether they are Wasm's."""
    fixture: tuple[Fixture, int | None] | None = None


class Recovery:
    """Repeats calls whose page was lost, where someone opens the page again.

    Parameters
    ----------
    send_again
        Sends ``held`` to the page that is there.

    Attributes
    ----------
    held
        What is sent again.
    losses
        How often something was lost and restored.
    gone
        Why the GPU was given up; None while it was not.
    lock
        Held while a loss is restored.
    """

    def __init__(self, hub: Hub, send_again: Callable[[], None]) -> None:
        self.held = Held()
        self.losses = 0
        self.gone: GpuGone | None = None
        self.lock = threading.RLock()
        self._hub = hub
        self._send_again = send_again
        self._in_a_row = 0
        self._mended = 0
        self._page = 0  # which of the hub's pages has what is held

    def steady(self, call: Callable[[], T]) -> T:
        """A call that is repeated when what it works on was lost under it.

        Calls of several threads may meet one loss, also those that begin while it is
        restored: the first of them does that.
        """
        while True:
            mended = self._mended
            try:
                self._meet()
                result = call()
            except PageError as error:
                with self.lock:
                    if mended == self._mended:
                        self.restore(error)
                    else:
                        self._check(error)
            else:
                self._in_a_row = 0
                return result

    def restore(self, error: PageError) -> None:
        """Send again what was lost; raise an error that is not a loss."""
        while True:
            self._check(error)
            self.losses += 1
            self._in_a_row += 1
            if isinstance(error, PageLost):
                self._hub.wait_for_return(PAGE_BACK_S)
            try:
                self._page = self._hub.pages
                self._send_again()
            except PageError as another:
                error = another
            else:
                self._mended += 1
                return

    def _check(self, error: PageError) -> None:
        """Raise an error that is not a loss of page or GPU, and a loss too many in a row."""
        code = error.code if isinstance(error, RequestError) else ""
        if code == GPU_MEMORY:
            self.gone = GpuGone(
                f"The GPU's memory does not suffice: {error.error}",
                "Close other programs that use it, or use --backend wasm.",
            )
            raise self.gone from error
        if not (isinstance(error, PageLost) or code == GPU_LOST):
            raise error
        if self._in_a_row < MOST_LOSSES:
            return
        if code != GPU_LOST:
            raise error
        self.gone = GpuGone(
            f"The GPU was lost {self._in_a_row + 1} times in a row: {error.error}",
            "Its driver may be at fault; Wasm still runs the model.",
        )
        raise self.gone from error

    def _meet(self) -> None:
        """Raise when another page came while nothing was asked.

        The page is noted before the call: at its end another thread may have met a newer one.
        """
        page = self._hub.pages
        if page == self._page:
            return
        if self.held.model or self.held.fixture:
            raise PageLost("The page was lost while it was idle.", LOST_HINT)
        self._page = page
