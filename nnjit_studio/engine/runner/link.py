"""The link of a runner to the page: one call's requests at a time, each with a time limit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.frames import Blob, Frame
from nnjit_studio.errors import PageError

SERVING_TIMEOUT_S = 600.0
"""Of a request that has to wait until the budget of a serving model allows it."""

LeftS: TypeAlias = Callable[[], float | None]
"""Seconds that are left, None without a limit."""


def unlimited() -> None:
    """No limit."""


class Ask(Protocol):
    """Sends a request and waits for its reply."""

    def __call__(
        self, header: Mapping[str, Any], blobs: Sequence[Blob] = (), timeout_s: float | None = None
    ) -> Frame: ...


class PageLink:
    """Requests to the page of a hub.

    Attributes
    ----------
    timeout_s
        How long one request may take.
    serving
        Whether the page serves a model under a budget, which requests have to wait for.
    """

    def __init__(self, hub: Hub, timeout_s: float) -> None:
        self.hub = hub
        self.timeout_s = timeout_s
        self.serving = False
        self._turn = threading.Lock()

    @contextlib.contextmanager
    def turn(self, left_s: LeftS = unlimited) -> Iterator[Ask]:
        """The turn of one call: its requests are not mixed with those of another.

        ``left_s`` tells how long the call may take yet; a request that takes longer is given up.
        """
        cancels = self.hub.cancels

        def ask(
            header: Mapping[str, Any], blobs: Sequence[Blob] = (), timeout_s: float | None = None
        ) -> Frame:
            limit_s = timeout_s or self.timeout_s
            if self.serving:
                limit_s = max(limit_s, SERVING_TIMEOUT_S)
            if (left := left_s()) is not None:
                if left <= 0:
                    raise PageError("The time for this is over.")
                limit_s = min(limit_s, left)
            return self.hub.request(header, blobs, limit_s, cancels)

        with self._turn:
            yield ask

    def ask(self, header: Mapping[str, Any], blobs: Sequence[Blob] = ()) -> Frame:
        """One request that waits for no other call's turn."""
        return self.hub.request(header, blobs, self.timeout_s)
