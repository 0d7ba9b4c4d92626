"""A request whose reply comes in parts: the tokens of a text."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Generator, Mapping
from typing import Any

from nnjit_studio.engine.hub.hub import Hub
from nnjit_studio.engine.messages.replies import read
from nnjit_studio.errors import PageError
from nnjit_studio.model import Generated, Token

LONGEST_TEXT_S = 7 * 24 * 3600.0


def stream_tokens(
    hub: Hub, header: Mapping[str, Any], timeout_s: float
) -> Generator[Token, None, Generated]:
    """Ask for a text and yield its tokens; the result is how it ended.

    Parameters
    ----------
    timeout_s
        How long one token may take.

    Raises
    ------
    PageError
        When the page is gone, answers with an error, or is silent for too long.
    """
    arrived: queue.SimpleQueue[dict[str, Any] | Exception] = queue.SimpleQueue()
    cancels = hub.cancels

    def work() -> None:
        try:
            reply, _ = hub.request(header, (), LONGEST_TEXT_S, cancels, arrived.put)
            arrived.put(reply)
        except Exception as error:  # it belongs to the thread that waits
            arrived.put(error)

    waiting = threading.Thread(target=work, name="nnjit-tokens", daemon=True)
    waiting.start()
    ended = False
    try:
        while True:
            try:
                part = arrived.get(timeout=timeout_s)
            except queue.Empty:
                raise PageError(
                    f"The page made no token within {timeout_s:g} s.",
                    "Close other heavy programs and start again.",
                ) from None
            ended = isinstance(part, Exception) or part["type"] != "token"
            if isinstance(part, Exception):
                raise part
            if ended:
                return read({**part, "tokens": part.get("made")}, Generated)
            yield read({**part, "id": part.get("token")}, Token)
    finally:
        if not ended:
            with contextlib.suppress(PageError):  # a page that is gone makes no more tokens
                hub.request({"type": "generate_stop"}, (), timeout_s)
            waiting.join(timeout_s)
