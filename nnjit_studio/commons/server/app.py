"""The web application: reports in, answers out."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nnjit_studio.commons.report.checks import check_place
from nnjit_studio.commons.report.document import HOME, Place
from nnjit_studio.commons.report.freshness import check_fresh
from nnjit_studio.commons.report.signed import MOST_BYTES, read_signed
from nnjit_studio.commons.server import admin
from nnjit_studio.commons.server.answers import FRESH_S, Answer, Answers, of_home
from nnjit_studio.commons.server.compiled import CompileService
from nnjit_studio.commons.server.counting import DAY_S, Arrival, QuotaError
from nnjit_studio.commons.server.intake import Intake
from nnjit_studio.commons.server.maps import of_bucket
from nnjit_studio.commons.server.metrics import Metrics
from nnjit_studio.commons.server.openapi import document
from nnjit_studio.commons.server.store import Store
from nnjit_studio.commons.server.throttle import Throttle
from nnjit_studio.errors import CommonsError, NnjitError

_FOR_EVER = "public, max-age=31536000, immutable"
_PRUNE_EVERY_S = 3600
_BUCKET = re.compile(r"[0-9a-f]{2}")


@dataclass(frozen=True)
class ServerOptions:
    """How a server is run.

    Attributes
    ----------
    address
        Its own, as devices sign it, such as ``https://commons.example.org``.
    admin_token
        Opens the admin page; without one there is no such page.
    keep_days
        Days after which ballots are forgotten.
    rate, burst
        Reports a second, and at once, of one source.
    at_once
        Reports that are worked on at a time; more are told to come again.
    """

    address: str
    admin_token: str = ""
    keep_days: int = 365
    rate: float = 5.0
    burst: float = 50.0
    at_once: int = 64


class Service:
    """The routes' functions, on one store."""

    def __init__(
        self, store: Store, options: ServerOptions, clock: Callable[[], float] = time.time
    ) -> None:
        self.store, self.options, self.clock = store, options, clock
        self.answers, self.maps = (
            Answers(partial(of_home, store)),
            Answers(partial(of_bucket, store)),
        )
        self.metrics = Metrics()
        self._throttle = Throttle(options.rate, options.burst)
        self._intake, self._working = Intake(store), 0
        self.compiles = False

    async def report(self, request: Request) -> Response:
        """Take a signed report; 200 is said after its commit."""
        source = self.store.source(request.client.host if request.client else "")
        if not self._throttle.take(source):
            return self._refused(429, "Too many reports.", "Wait a minute.", "throttled")
        if self._working >= self.options.at_once:
            return self._refused(503, "The server is busy.", "Send it again.", "busy")
        self._working += 1
        try:
            return await self._take(request, source)
        finally:
            self._working -= 1

    async def _take(self, request: Request, source: str) -> Response:
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > MOST_BYTES:
                return self._refused(413, "The report is too large.", "Send less.", "oversized")
        began, now = time.perf_counter(), int(self.clock())
        try:
            signed = read_signed(bytes(data))
            check_fresh(signed.report, self.options.address, now)
            new = await self._intake.accept(Arrival(signed, source, now))
        except QuotaError as e:
            return self._refused(429, e.error, e.hint, "quota")
        except SQLAlchemyError:
            error = "The database did not answer, so that nothing is known to be counted."
            return self._refused(503, error, "Send the same report again.", "busy")
        except CommonsError as e:
            return self._refused(400, e.error, e.hint, "refused")
        self.metrics.report_seconds.observe(time.perf_counter() - began)
        self.metrics.reports.labels("counted" if new else "known").inc()
        return JSONResponse({"ok": True, "new": new, "number": signed.report.number})

    def _refused(self, status: int, error: str, hint: str, outcome: str) -> Response:
        self.metrics.reports.labels(outcome).inc()
        headers = {"Retry-After": "60" if status == 429 else "1"} if status in (429, 503) else {}
        return _error(status, CommonsError(error, hint), headers)

    async def kernels(self, request: Request) -> Response:
        """Every believed kernel of one kind of device."""
        try:
            home = home_of(dict(request.query_params))
        except CommonsError as e:
            return _error(400, e)
        held = self.answers.held(home)
        self.metrics.answers.labels("memory" if held else "made").inc()
        if held is None:
            held = await run_in_threadpool(self.answers.make, home)
        return _answered(request, held, f"public, max-age={FRESH_S}")

    async def map(self, request: Request) -> Response:
        """What wins on which kind of device, for the kernels of a bucket."""
        bucket = request.query_params.get("bucket", "")
        if set(request.query_params) != {"bucket"} or not _BUCKET.fullmatch(bucket):
            return _error(400, CommonsError("The bucket is none.", "Give two hexadecimal digits."))
        held = self.maps.held(bucket)
        if held is None:
            held = await run_in_threadpool(self.maps.make, bucket)
        return _answered(request, held, f"public, max-age={FRESH_S}", kept=False)

    async def snapshot(self, request: Request) -> Response:
        """A published answer by its digest; it never changes."""
        digest = request.path_params["digest"]
        found = await run_in_threadpool(self.store.snapshot, digest)
        if found is None:
            return _error(404, CommonsError("There is no such snapshot.", "Ask for /kernels."))
        return _answered(request, Answer(found.encode(), digest), _FOR_EVER)

    async def health(self, request: Request) -> Response:
        """Whether the database answers."""
        counts = await run_in_threadpool(self.store.counts)
        return JSONResponse({"ok": True, "ballots": counts["ballots"]})

    async def metrics_text(self, request: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(document(self.options.address, self.compiles))

    async def admin(self, request: Request) -> Response:
        if not self.options.admin_token:
            return _error(404, CommonsError("There is no such page.", ""))
        if not admin.allowed(request.headers.get("authorization", ""), self.options.admin_token):
            asks = {"WWW-Authenticate": 'Basic realm="commons", charset="UTF-8"'}
            return _error(401, CommonsError("The admin page needs its token.", ""), asks)
        now = int(self.clock())
        return Response(
            await run_in_threadpool(admin.page, self.store, now),
            media_type="text/html",
            headers=admin.HEADERS,
        )

    async def style(self, request: Request) -> Response:
        return Response(admin.style(), media_type="text/css")

    async def prune_for_ever(self) -> None:
        while True:
            before = int(self.clock()) - self.options.keep_days * DAY_S
            await run_in_threadpool(self.store.prune, before)
            await anyio.sleep(_PRUNE_EVERY_S)


def application(service: Service, compiling: CompileService | None = None) -> Starlette:
    """The application of a service; it forgets old ballots while it runs."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.prune_for_ever)
            yield
            tasks.cancel_scope.cancel()

    routes = [
        Route("/reports", service.report, methods=["POST"]),
        Route("/kernels", service.kernels),
        Route("/map", service.map),
        Route("/snapshots/{digest}.json", service.snapshot),
        Route("/health", service.health),
        Route("/metrics", service.metrics_text),
        Route("/openapi.json", service.openapi),
        Route("/admin", service.admin),
        Route("/admin.css", service.style),
    ]
    routes += compiling.routes() if compiling else []
    service.compiles = compiling is not None
    return Starlette(routes=routes, lifespan=lifespan)


def home_of(query: dict[str, str]) -> Place:
    """The kind of device that a question names.

    Raises
    ------
    CommonsError
    """
    if set(query) != set(HOME):
        raise CommonsError("The question is not whole.", f"Give {', '.join(HOME)}.")
    numbers = {n: query[n] for n in ("version", "threads")}
    if not all(text.isascii() and text.isdigit() and len(text) < 6 for text in numbers.values()):
        raise CommonsError("Version and threads are numbers.", "Check the question.")
    words = {n: query[n] for n in HOME if n not in numbers}
    version, threads = int(numbers["version"]), int(numbers["threads"])
    home = Place("any", "1", "any", "row-major", **words, version=version, threads=threads)
    check_place(home)
    return home


def _answered(request: Request, answer: Answer, caching: str, kept: bool = True) -> Response:
    """With the address of its snapshot where it is ``kept`` as one."""
    tag = f'"{answer.digest}"'
    headers = {
        "ETag": tag,
        "Cache-Control": caching,
        "Access-Control-Allow-Origin": "*",
    }
    if kept:
        headers["Content-Location"] = f"/snapshots/{answer.digest}.json"
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(answer.document, media_type="application/json", headers=headers)


def _error(status: int, error: NnjitError, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(error.to_json(), status, headers)
