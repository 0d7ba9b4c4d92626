"""The compile service: kernels a second from cold settings, and reads of what it made.

Prints one JSON object with the date, the machine's load and the figures; run it idle.
"""

from __future__ import annotations

import argparse
import datetime
import http.client
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from nnjit_studio.commons.kernels.pool import Pool
from nnjit_studio.commons.kernels.shelf import Shelf
from nnjit_studio.commons.kernels.wanted import Wanted
from nnjit_studio.commons.server.compiled import CompileService
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.version import COMPILER_VERSION

PRODUCTS = (
    "matmul:128x384x384:f32+bias",
    "matmul:128x384x384:f32+bias+residual",
    "matmul:128x384x1536:f32+bias+gelu",
    "matmul:128x1536x384:f32+bias+residual",
    "matmul:128x384x1152:f32+bias",
    "matmul:384x768x768:f32+bias",
)
TIER = "relaxed-simd"


def quantiles(seconds: list[float]) -> dict[str, float]:
    """Median and 99th percentile in ms."""
    ordered = sorted(s * 1000 for s in seconds)
    last = len(ordered) - 1
    return {"p50_ms": round(ordered[last // 2], 2), "p99_ms": round(ordered[last * 99 // 100], 2)}


def cold(pool: Pool, keys: list[str], processes: int) -> dict[str, float]:
    """Every candidate of every product once, as many at a time as there are processes."""
    space = [(k, c) for k in keys for c in pool._space(k, 16, 32768, 524288, TIER)]
    took: list[float] = []

    def one(job: tuple[str, object]) -> None:
        began = time.perf_counter()
        pool._make(job[0], job[1], TIER)  # type: ignore[arg-type]
        took.append(time.perf_counter() - began)

    for maker in pool._makers:  # processes that run know their workloads; settings are cold
        for key in keys:
            maker.compile(key, pool._space(key, 16, 32768, 524288, TIER)[0], TIER)
    began = time.perf_counter()
    with ThreadPoolExecutor(processes) as threads:
        list(threads.map(one, space))
    rate = len(space) / (time.perf_counter() - began)
    return {"kernels": len(space), "kernels_per_s": round(rate, 1), **quantiles(took)}


def reads(
    port: int, path: Callable[[str], str], digests: list[str], count: int
) -> dict[str, float]:
    """Reads over one connection, one after the other."""
    connection, took = http.client.HTTPConnection("127.0.0.1", port), []
    for n in range(count):
        began = time.perf_counter()
        connection.request("GET", path(digests[n % len(digests)]))
        response = connection.getresponse()
        response.read()
        assert response.status == 200
        took.append(time.perf_counter() - began)
    return {"reads_per_s": round(count / sum(took)), **quantiles(took)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--reads", type=int, default=3000)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    speller = CompileProcess()
    keys = [speller.define(spec)[0].key for spec in PRODUCTS]
    speller.close()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pool = Pool(Shelf(folder, COMPILER_VERSION), options.processes)
        figures: dict[str, object] = {"cold": cold(pool, keys, options.processes)}
        began = time.perf_counter()
        for key in keys:
            pool.answer(Wanted(key, TIER, 16, 32768, 524288, 0))
        figures["cached_answer_ms"] = round((time.perf_counter() - began) * 1000 / len(keys), 2)
        routes = [*CompileService(pool).routes(), Mount("/files", StaticFiles(directory=folder))]
        config = uvicorn.Config(Starlette(routes=routes), port=0, log_level="critical")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        digests = [file.stem for file in folder.glob("*.wasm")]
        figures["cached"] = reads(port, lambda d: f"/compiled/{d}.wasm", digests, options.reads)
        figures["files"] = reads(port, lambda d: f"/files/{d}.wasm", digests, options.reads)
        server.should_exit = True
        thread.join()
        pool.close()
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    facts = {"date": now, "cores": os.cpu_count(), "load": round(load, 1)}
    print(json.dumps({**facts, "processes": options.processes, **figures}, indent=2))


if __name__ == "__main__":
    main()
