"""Weights of the seeded decoder by way of a file: written, and served in ranges as a page asks."""

from __future__ import annotations

from pathlib import Path
from urllib.request import Request, urlopen

from nnjit_studio.bench.llm.decoder.config import TINY
from nnjit_studio.bench.llm.decoder.plan import decoder_plan, weights_of
from nnjit_studio.bench.llm.llama import write_weights
from nnjit_studio.engine.pages.server import PageServer


def test_each_buffer_is_a_range_of_the_served_file(tmp_path: Path) -> None:
    plan = decoder_plan(TINY)
    write_weights(plan, tmp_path / "weights.bin")
    assert (tmp_path / "weights.bin").stat().st_size == plan.file_bytes
    weights = weights_of(plan)
    with PageServer({"files": tmp_path}) as server:
        for buffer in plan.buffers:
            if buffer.seed:
                last = buffer.offset + buffer.nbytes - 1
                asked = Request(server.url("weights.bin", "files"))
                asked.add_header("Range", f"bytes={buffer.offset}-{last}")
                with urlopen(asked) as answer:
                    assert (answer.status, answer.read()) == (206, weights[buffer.name])
