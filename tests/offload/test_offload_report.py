"""What is told of a loop that was measured."""

from __future__ import annotations

from nnjit_studio.foreign_wasm.offload.report import priced

LOOP = {"verdict": "offload", "pattern": "dot", "reason": "", "text": "", "price": None}


def told(**status: object) -> dict[str, object]:
    counters = {"success": 0, "fallback": {"aliasing": 8, "price": 0}}
    return priced(LOOP, {"status": [status], "counters": counters, "wrong": []})


def test_a_loop_that_never_ran_on_the_gpu_is_told_why() -> None:
    row = told(state="check", loopMs=0.1, gpuMs=None)
    assert row["text"] == "it never ran on the GPU: aliasing"


def test_prices_and_the_pages_own_words() -> None:
    assert "GPU takes 0.200 ms" in str(told(state="on", loopMs=0.3, gpuMs=0.2)["text"])
    stays = told(state="off", reason="price", text="dear: stays", loopMs=0.1, gpuMs=None)
    assert (stays["verdict"], stays["reason"], stays["text"]) == ("stays", "price", "dear: stays")
