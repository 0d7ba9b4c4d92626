"""The compiler as a service: real processes, a real server, the Studio's own bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from nnjit_studio.commons.kernels.lots import L1, L2, LISTED, LOT, lots_of
from nnjit_studio.commons.kernels.pool import Pool
from nnjit_studio.commons.kernels.programs import FOLDER, Written, write_programs
from nnjit_studio.commons.kernels.shelf import Shelf
from nnjit_studio.commons.server.compiled import CompileService
from nnjit_studio.commons.server.openapi import document
from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.compiler.version import COMPILER_VERSION
from nnjit_studio.errors import UserError
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
    answer = web.get("/candidates", params=question(workload.key))
    first = answer.json()
    assert answer.headers["cache-control"] == "public, max-age=3600"
    assert len(first["kernels"]) == first["after"] == LOT < first["candidates"]
    for told in first["kernels"]:
        served = web.get(f"/compiled/{told['sha256']}.wasm")
        assert "immutable" in served.headers["cache-control"]
        own = studio.compile(workload, parse_candidate(told["settings"]), ("relaxed-simd",))
        kernel = own.kernel("relaxed-simd")
        assert served.content == kernel.data
        assert told == kernel.header()
        assert hashlib.sha256(served.content).hexdigest() == told["sha256"]
    following = web.get("/candidates", params=question(workload.key, LOT)).json()
    known = {k["settings"] for k in first["kernels"]}
    assert known.isdisjoint(k["settings"] for k in following["kernels"])


def test_a_program_that_an_export_wrote_is_served_with_the_studios_bytes(
    pool: Pool, process: CompileProcess
) -> None:
    spelled, packable = process.define("matmul:16x32x24:f32+bias+gelu")
    text = process.program(spelled).replace('{"Const":[0.5,"f32"]}', '{"Const":[0.25,"f32"]}')
    workload, _ = process.adopt(text)
    assert workload.key != process.define(workload.name)[0].key, "its name does not tell it whole"
    web, ask = client(pool), question(workload.key)
    assert "--programs" in web.get("/candidates", params=ask).json()["hint"]
    write_programs(pool.shelf.folder / FOLDER, [Written(workload.key, packable, text)])
    (told, *_) = web.get("/candidates", params=ask).json()["kernels"]
    own = Compiler(process).compile(workload, parse_candidate(told["settings"]), ("relaxed-simd",))
    served = web.get(f"/compiled/{told['sha256']}.wasm").content
    assert served == own.kernel("relaxed-simd").data
    false_key = workload.name + "#000000000000"
    write_programs(pool.shelf.folder / FOLDER, [Written(false_key, packable, text)])
    assert web.get("/candidates", params=question(false_key)).status_code == 400


def test_an_export_knows_the_lots_of_the_service(pool: Pool, process: CompileProcess) -> None:
    workload, packable = process.define("matmul:16x32x40:f32+bias")
    lots = lots_of(workload, packable, Compiler(process).compile)
    assert set(lots) == {f"{t}/{n}" for t in ("simd128", "relaxed-simd") for n in (16, 32)}
    asked = {"tier": "simd128", "registers": 32, "l1": L1, "l2": L2}
    for number, digest in enumerate(lots["simd128/32"]):
        told = client(pool).get("/candidates", params=question(workload.key, LOT * number, **asked))
        lines = [
            f"{k['settings']} {k['sha256']} {','.join(f'{a}:{w}' for a, w in k['panels'])} "
            f"{k['parallel_extent']}"
            for k in told.json()["kernels"]
        ]
        assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == digest
    assert len(lots["simd128/32"]) == LISTED


def test_what_is_no_program_is_refused_in_a_sentence(process: CompileProcess) -> None:
    for text in ("", "[]", '{"Program":[]}', '{"Path":["x"]}', "[" * 100_000, '{"Var":["i"]}'):
        with pytest.raises(UserError, match=r"program"):
            process.adopt(text)


def test_a_client_has_a_budget_and_the_shelf_costs_none(
    pool: Pool, process: CompileProcess
) -> None:
    workload, _ = process.define("matmul:32x48x32:f32")
    web = client(pool, burst=3)
    cut = web.get("/candidates", params=question(workload.key))
    first = cut.json()
    assert first["after"] == len(first["kernels"]) == 3
    assert "cache-control" not in cut.headers, "the rest comes later"
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


def test_the_description_has_the_compile_service_where_there_is_one() -> None:
    paths = [document("https://a.example", compiles)["paths"] for compiles in (False, True)]
    assert set(paths[1]) - set(paths[0]) == {"/candidates", "/compiled/{digest}.wasm"}
    asked = {p["name"] for p in paths[1]["/candidates"]["get"]["parameters"]}
    assert asked == set(question("x"))


def test_no_other_file_is_served(pool: Pool) -> None:
    web = client(pool)
    for name in ("..%2f..%2fetc%2fpasswd", "a" * 64, "A" * 64):
        assert web.get(f"/compiled/{name}.wasm").status_code == 404
