"""The compiler as a service: real processes, a real server, the Studio's own bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from nnjit_studio.commons.kernels import Pool, Shelf
from nnjit_studio.commons.kernels.pool import BATCH
from nnjit_studio.commons.server.compiled import CompileService
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.records.gpu_candidate import parse_candidate

SPEC = "matmul:32x48x64:f32+bias+gelu"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    made = Pool(Shelf(tmp_path_factory.mktemp("kernels"), COMPILER_VERSION), 1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def process() -> Iterator[CompileProcess]:
    """The Studio's own."""
    made = CompileProcess()
    yield made
    made.close()


def client(pool: Pool, burst: float = 1000.0) -> TestClient:
    return TestClient(Starlette(routes=CompileService(pool, 0.0, burst).routes()))


def question(key: str, after: int = 0, **changes: object) -> dict[str, str]:
    whole = {"workload": key, "tier": "relaxed-simd", "registers": 16, "l1": 32768, "l2": 524288}
    return {name: str(value) for name, value in {**whole, "after": after, **changes}.items()}


def test_kernels_of_the_queue_are_those_of_the_studio(pool: Pool, process: CompileProcess) -> None:
    workload, _ = process.define(SPEC)
    web, studio = client(pool), Compiler(process)
    first = web.get("/candidates", params=question(workload.key)).json()
    assert len(first["kernels"]) == first["after"] == BATCH < first["candidates"]
    for told in first["kernels"]:
        served = web.get(f"/compiled/{told['sha256']}.wasm")
        assert "immutable" in served.headers["cache-control"]
        own = studio.compile(workload, parse_candidate(told["settings"]), ("relaxed-simd",))
        kernel = own.kernel("relaxed-simd")
        assert served.content == kernel.data
        assert told == kernel.header()
        assert hashlib.sha256(served.content).hexdigest() == told["sha256"]
    following = web.get("/candidates", params=question(workload.key, BATCH)).json()
    known = {k["settings"] for k in first["kernels"]}
    assert known.isdisjoint(k["settings"] for k in following["kernels"])


def test_a_client_has_a_budget_and_the_shelf_costs_none(
    pool: Pool, process: CompileProcess
) -> None:
    workload, _ = process.define("matmul:32x48x32:f32")
    web = client(pool, burst=3)
    first = web.get("/candidates", params=question(workload.key)).json()
    assert first["after"] == len(first["kernels"]) == 3
    over = web.get("/candidates", params=question(workload.key, 3))
    assert over.status_code == 429 and over.headers["retry-after"]
    again = web.get("/candidates", params=question(workload.key)).json()
    assert again["kernels"] == first["kernels"], "what is on the shelf is free"
    assert web.get("/candidates", params=question(workload.key, 99_999)).json()["kernels"] == []


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "matmul:32x48x64:f32#000000000000"},
        {"workload": "matmul:../../etc:f32#0a"},
        {"workload": f"matmul:{'9' * 9}x{'9' * 9}x9:f32#0a"},
        {"tier": "wgsl"},
        {"registers": 0},
        {"l1": "-1"},
        {"more": 1},
    ],
)
def test_what_cannot_be_composed_is_refused_in_a_sentence(
    pool: Pool, changes: dict[str, object]
) -> None:
    refused = client(pool).get("/candidates", params=question("x", **changes))
    assert refused.status_code == 400 and refused.json()["error"].endswith(".")


def test_no_other_file_is_served(pool: Pool) -> None:
    web = client(pool)
    for name in ("..%2f..%2fetc%2fpasswd", "a" * 64, "A" * 64):
        assert web.get(f"/compiled/{name}.wasm").status_code == 404
