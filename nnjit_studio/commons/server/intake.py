"""Reports on their way into the database: all that came during one commit share the next."""

from __future__ import annotations

import asyncio
from collections import deque

from starlette.concurrency import run_in_threadpool

from nnjit_studio.commons.server.counting import Arrival, Counted
from nnjit_studio.commons.server.store import Store
from nnjit_studio.errors import CommonsError

_AT_ONCE = 64
"""Reports in one transaction."""


class Intake:
    """One writer of a server. A commit waits for the disk, however much it holds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[tuple[Arrival, asyncio.Future[Counted]]] = deque()
        self._writer: asyncio.Task[None] | None = None

    async def accept(self, arrival: Arrival) -> bool:
        """Whether a report was new; after its commit.

        Raises
        ------
        CommonsError
            Where it is refused.
        SQLAlchemyError
            Where nothing of its transaction is known to be counted.
        """
        told: asyncio.Future[Counted] = asyncio.get_running_loop().create_future()
        self._waiting.append((arrival, told))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())
        result = await told
        if isinstance(result, CommonsError):
            raise result
        return result

    async def _write(self) -> None:
        while self._waiting:
            count = min(_AT_ONCE, len(self._waiting))
            batch = [self._waiting.popleft() for _ in range(count)]
            try:
                results = await run_in_threadpool(
                    self._store.accept_all, [arrival for arrival, _ in batch]
                )
            except Exception as e:  # each of them is told; the next transaction is another try
                for _, told in batch:
                    if not told.done():
                        told.set_exception(e)
                continue
            for (_, told), result in zip(batch, results, strict=True):
                if not told.done():  # whoever left does not wait
                    told.set_result(result)
