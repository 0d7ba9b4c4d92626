"""The routes of the compile service: candidates in a queue, kernels by their hash."""

from __future__ import annotations

from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nnjit_studio.commons.kernels.lots import LOT
from nnjit_studio.commons.kernels.pool import Pool
from nnjit_studio.commons.kernels.wanted import wanted_of
from nnjit_studio.commons.server.throttle import Throttle
from nnjit_studio.errors import CommonsError

_OPEN = {"Access-Control-Allow-Origin": "*"}
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable", **_OPEN}
_AN_HOUR = {"Cache-Control": "public, max-age=3600"}
"""Of a whole lot: it changes with the compiler alone. One that a budget cut short is not kept."""
RATE, BURST = 1.0, 100.0
"""Kernels a second, and at once, that are compiled for one client."""


class CompileService:
    """The routes' functions, on one pool."""

    def __init__(self, pool: Pool, rate: float = RATE, burst: float = BURST) -> None:
        self.pool, self._budget = pool, Throttle(rate, burst)

    async def candidates(self, request: Request) -> Response:
        """The next candidates of a workload; what is not on the shelf is compiled."""
        may = partial(self._budget.take, request.client.host if request.client else "")
        try:
            wanted = wanted_of(dict(request.query_params))
            answer = await run_in_threadpool(self.pool.answer, wanted, may)
        except CommonsError as e:
            over = "budget" in e.error
            headers = {**_OPEN, **({"Retry-After": "60"} if over else {})}
            return JSONResponse(e.to_json(), 429 if over else 400, headers)
        whole = answer["after"] in (wanted.after + LOT, answer["candidates"])
        return JSONResponse(answer, headers=_OPEN | (_AN_HOUR if whole else {}))

    async def kernel(self, request: Request) -> Response:
        """A kernel by its SHA-256; it never changes."""
        try:
            data = self.pool.shelf.data(request.path_params["digest"])
        except FileNotFoundError:
            error = CommonsError("There is no such kernel.", "Ask for /candidates.")
            return JSONResponse(error.to_json(), 404, _OPEN)
        return Response(data, media_type="application/wasm", headers=_FOR_EVER)

    def routes(self) -> list[Route]:
        return [
            Route("/candidates", self.candidates),
            Route("/compiled/{digest}.wasm", self.kernel),
        ]
