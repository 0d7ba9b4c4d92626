"""Profiles of V8 counted by Wasm function."""

from typing import Any

from wasm_builder import END, nops, op, products
from wasm_builder import module as build

from nnjit_studio.engine.devtools.sampling import ThreadProfile
from nnjit_studio.foreign_wasm.inspection.hotspots.export import busiest, speedscope
from nnjit_studio.foreign_wasm.inspection.hotspots.samples import counted, index_at
from nnjit_studio.foreign_wasm.inspection.hotspots.text import as_text
from nnjit_studio.wasm_file.module import read

URL = "wasm://wasm/1"
CALLER = b"\0" + op("local.get", 0) * 2 + op("call", 0) + END
DATA = build([products(16, 1), CALLER, nops(3)], {0: "gemm"})
MODULE = read(DATA)


def node(number: int, name: str, column: int = 0, url: str = "", *below: int) -> dict[str, Any]:
    call = {"functionName": name, "url": url, "columnNumber": column, "lineNumber": 0}
    return {"id": number, "callFrame": call, "children": list(below)}


def thread(samples: list[int], deltas: list[int]) -> ThreadProfile:
    gemm, caller = (MODULE.bodies[i].start for i in (0, 1))
    nodes = [
        node(1, "(root)", 0, "", 2, 3, 6),
        node(2, "(idle)"),
        node(3, "main", 5, "http://127.0.0.1/m.js", 4),
        node(4, "wasm-function[1]", caller, URL, 5),
        node(5, "gemm", gemm, URL),
        node(6, "(garbage collector)"),
    ]
    return ThreadProfile(
        "page", "http://127.0.0.1/", {"nodes": nodes, "samples": samples, "timeDeltas": deltas},
        {URL: DATA},
    )  # fmt: skip


def test_time_goes_to_the_function_that_ran_and_to_those_that_called_it() -> None:
    found = counted("c", [thread([5, 5, 4, 3, 2, 6, 2], [0, 4000, 4000, 1000, 500, 90000, 500])])
    assert found.busy_ms == 10.0
    assert found.parts_ms == {"wasm": 9.0, "javascript": 0.5, "garbage collection": 0.5}
    first, second = found.functions
    assert (first.index, first.self_ms, first.total_ms, first.share) == (0, 8.0, 8.0, 0.8)
    assert (second.index, second.self_ms, second.total_ms) == (1, 1.0, 9.0)


def test_the_sentence_joins_the_time_with_the_registers() -> None:
    found = counted("c", [thread([5, 2], [0, 1000])])
    assert found.functions[0].text == (
        "function 0, gemm: 100% of the time, 18 live vectors on 15 registers: 3 spill"
    )
    assert found.functions[0].text in as_text(found, 5)
    assert found.to_json()["functions"][0]["spills"] == 3


def test_threads_are_added_up_and_an_idle_one_counts_for_nothing() -> None:
    busy = thread([5, 2], [0, 1000])
    found = counted("c", [busy, busy, thread([2, 2], [0, 9000])])
    assert (found.busy_ms, found.threads) == (2.0, 2)


def test_every_byte_of_a_body_belongs_to_its_function() -> None:
    for index in MODULE.defined:
        start, end = MODULE.bodies[index]
        assert {index_at(MODULE, at) for at in (start - 1, start, end - 1)} == {index}
    assert index_at(MODULE, len(DATA) + 5) is None


def test_a_page_that_ran_nothing_is_told_so() -> None:
    assert "nothing" in as_text(counted("c", [thread([2, 2], [0, 5])]), 5)
    script = counted("c", [thread([3, 2], [0, 5])])
    assert "No Wasm function" in as_text(script, 5)


def test_the_exports_have_the_same_time() -> None:
    threads = [thread([2, 2], [0, 9]), thread([5, 4, 2], [0, 1000, 500])]
    document = speedscope(threads)
    shown = document["profiles"][1]
    assert shown["weights"] == [1000, 500]
    names = [document["shared"]["frames"][i]["name"] for i in shown["samples"][0]]
    assert names == ["(root)", "main", "wasm-function[1]", "gemm"]
    assert busiest(threads) == threads[1].profile
