"""``nnjit bench dispatches``: what many tiny GPU dispatches cost, beside the peers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nnjit_studio.bench.gpu.kernels import write_keep_alive
from nnjit_studio.bench.gpu.page import gpu_page
from nnjit_studio.bench.gpu.tables import adapter_text
from nnjit_studio.bench.peers.onnx_models import IR_VERSION, OPSET
from nnjit_studio.bench.statistics import ratios, spread
from nnjit_studio.bench.tables import conditions, markdown_table, text_table

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
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("in0", TensorProto.FLOAT, (4,))],
        [helper.make_tensor_value_info("out0", TensorProto.FLOAT, (4,))],
        [numpy_helper.from_array(np.ones(4, np.float32), "one")],
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString())


def compare(
    count: int,
    folder: Path,
    target: str,
    peers: Sequence[str],
    node_modules: Path | None,
    no_sandbox: bool,
    published: bool,
    note: Callable[[str], None],
    rounds: int = ROUNDS,
    gpu: str = "hardware",
) -> dict[str, Any]:
    """Time the chain of each in turns, in one page; the benchmark's JSON document.

    The page fails when a chain's result is not exact.

    Raises
    ------
    UserError, TargetError, PageError
    """
    write_chain(folder / "chain.onnx", count)
    write_keep_alive(folder / "keep_alive.onnx")
    page_name = "gpu/dispatches.html"
    with gpu_page(page_name, folder, target, node_modules, no_sandbox, published, gpu) as page:
        note(f"adapter: {page.profile.name}")
        page.give(
            {
                "peers": list(peers),
                "count": count,
                "rounds": rounds,
                "warm_ms": WARM_MS,
                "warmups": WARMUPS,
            }
        )
        (message,) = page.rows()
        found = page.conditions()
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


def _table(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = ["who", "ms (min; IQR)", "us each", "ms until queued", "/ ours"]
    rows = [
        [
            name,
            f"{ms['median']:.3f} ({ms['min']:.3f}; {ms['iqr']:.3f})",
            f"{ms['median'] / result['count'] * 1e3:.2f}",
            f"{result['queued_ms'][name]['median']:.3f}",
            f"{result['ratio'].get(name, 1.0):.2f}",
        ]
        for name, ms in result["ms"].items()
    ]
    return head, rows


def dispatches_text(result: Mapping[str, Any]) -> str:
    title = f"{result['count']} dependent dispatches, the result read:"
    return "\n\n".join((adapter_text(result), title, text_table(*_table(result))))


def dispatches_markdown(result: Mapping[str, Any]) -> str:
    return (
        f"## {result['date'][:10]}: {result['count']} tiny GPU dispatches\n\n"
        f"{conditions(result)} {adapter_text(result)} A chain of additions to four numbers, "
        f"from the first call to its result in the page's memory.\n\n"
        f"{markdown_table(*_table(result))}"
    )
