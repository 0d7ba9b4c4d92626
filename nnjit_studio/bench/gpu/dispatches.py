"""``nnjit bench dispatches``: the cost of many tiny GPU dispatches, compared with the peers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from nnjit_studio.bench.gpu.page import gpu_page
from nnjit_studio.bench.gpu.tables import adapter_text
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.report import Report, Table, spread_text
from nnjit_studio.bench.statistics import ratios, spread
from nnjit_studio.samples.small import port, save_model

ROUNDS = 15
WARM_MS = 30.0
WARMUPS = 8
"""Runs of each before anything counts: the optimising compiler is slow to come."""


def write_chain(path: Path, count: int) -> None:
    """A model that adds 1 to four numbers ``count`` times, one node for each."""
    names = ["in0", *(f"t{i}" for i in range(1, count)), "out0"]
    nodes = [
        helper.make_node("Add", [before, "one"], [after])
        for before, after in itertools.pairwise(names)
    ]
    one = numpy_helper.from_array(np.ones(4, np.float32), "one")
    save_model(path, nodes, [port("in0", (4,))], [port("out0", (4,))], [one])


def compare(count: int, options: BenchOptions, note: Note, rounds: int = ROUNDS) -> dict[str, Any]:
    """Time the chain of each in turns, in one page; the benchmark's JSON document.

    The page fails when a chain's result is not exact.

    Raises
    ------
    UserError, TargetError, PageError
    """
    write_chain(options.folder / "chain.onnx", count)
    with gpu_page("dispatches", options, note) as page:
        job = {"peers": options.peers, "count": count, "rounds": rounds}
        (message,) = page.rows({**job, "warm_ms": WARM_MS, "warmups": WARMUPS})
        found = page.document()
    samples = message["samples"]
    ms = {name: spread(s["ms"]) for name, s in samples.items()}
    return {
        **found,
        "count": count,
        "ms": ms,
        "queued_ms": {name: spread(s["queued_ms"]) for name, s in samples.items()},
        "ratio": ratios(ms),
        "samples": samples,
    }


def dispatches_report(result: Mapping[str, Any]) -> Report:
    head = ["who", "ms (min; IQR)", "us each", "ms until queued", "/ ours"]
    rows = [
        [
            name,
            spread_text(ms),
            f"{ms['median'] / result['count'] * 1e3:.2f}",
            f"{result['queued_ms'][name]['median']:.3f}",
            f"{result['ratio'].get(name, 1.0):.2f}",
        ]
        for name, ms in result["ms"].items()
    ]
    about = (
        "A chain of additions to four numbers, from the first call to its result in the page's "
        "memory."
    )
    first = f"{result['count']} dependent dispatches, the result read:"
    parts = (adapter_text(result), first, Table(head, rows))
    return Report(result, f"{result['count']} tiny GPU dispatches", about, parts)
