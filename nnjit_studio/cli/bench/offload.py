"""The verb ``offload``: loops of a Wasm module that can run on a GPU, and what that costs."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from nnjit_studio.cli.bench.options import ADAPTER, BROWSER
from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.target_options import OPTIONS
from nnjit_studio.cli.verbs import FILE, OUTPUT, argument, group, option, same, verb
from nnjit_studio.errors import UserError
from nnjit_studio.foreign_wasm.apart import whole
from nnjit_studio.foreign_wasm.offload import job, report
from nnjit_studio.foreign_wasm.offload.cases import Loop
from nnjit_studio.foreign_wasm.offload.loops import find_loops
from nnjit_studio.foreign_wasm.turbo.outputs import check_new
from nnjit_studio.support.files import replacing
from nnjit_studio.wasm_file.module import Module


@dataclass(frozen=True)
class Measuring:
    """Where prices are measured."""

    measure: bool = option(
        False, "Measure each loop that can be offloaded, on the GPU of a browser."
    )
    mode: str = option(
        "jspi",
        "How the module waits for the GPU: suspended (JSPI), or its worker blocked.",
        type=click.Choice(job.MODES),
    )
    target: str = same(BROWSER)
    gpu: str = same(ADAPTER)
    no_sandbox: bool = same(OPTIONS["no_sandbox"])


@verb()
def offload(
    file: Path = argument(type=FILE),
    out: Path | None = option(
        None,
        "Write the module with a call around each such loop, and its plan beside it as .json.",
        flag="--out -o",
        type=OUTPUT,
    ),
    everything: bool = option(False, "List the loops that stay, too.", flag="--all"),
    measuring: Measuring = group(Measuring),
    as_json: bool = JSON,
) -> None:
    """Find the loops of a Wasm module that can run on a GPU, and say why the others stay.

    FILE is a .wasm module. The patterns are element-wise loops, dot products, products of a
    matrix with a vector or a matrix, and sums; what they compute is proven from the code.
    With --measure each is run in a browser, as it is and through its kernel with the transfers:
    where the loop alone is faster, it stays. With --gpu lab products are measured on the GPU's
    matrix units too, operands rounded to f16: no file that is written has such kernels.
    """
    if out is not None:
        check_new(file, out)
    found = find_loops(file, note)
    result = {"ok": True, "file": str(file), "loops": [loop.told for loop in found]}
    if out is not None:
        _write(file, found, out)
        result["out"] = str(out)
    if measuring.measure:
        _measure(found, result, measuring)
    answer(as_json, result, report.text(result, everything))


def _write(file: Path, found: Sequence[Loop], out: Path) -> None:
    functions = {loop.told["function"] for loop in found if loop.told["pattern"]}
    written = whole(_offloaded, file, functions)
    if written is None:
        raise UserError(
            f"No loop of {file.name} can run on a GPU, so nothing was written.",
            "Leave --out away: the reasons are listed.",
        )
    data, plan = written
    for path, content in ((out, data), (out.with_suffix(".json"), plan.encode())):
        with replacing(path) as part:
            part.write_bytes(content)


def _offloaded(module: Module, functions: Collection[int]) -> tuple[bytes, str] | None:
    nests = job.nests_of(module, {}, functions)
    return job.offloaded(module, nests) if nests else None


def _measure(found: Sequence[Loop], result: dict[str, Any], given: Measuring) -> None:
    """Fill in prices of the loops that stand alone, and the counters of the run."""
    cases = {i: loop.case for i, loop in enumerate(found) if loop.case is not None}
    if not cases:
        return
    named = [replace(case, name=str(i)) for i, case in cases.items()]
    made = map(job.lab_case, named if given.gpu == "lab" else [])
    lab = {case.name: (case, files) for case, files in filter(None, made)}
    named += [case for case, _ in lab.values()]
    with tempfile.TemporaryDirectory(prefix="nnjit-offload-") as folder:
        where = job.Where(
            Path(folder), target=given.target, no_sandbox=given.no_sandbox, gpu=given.gpu
        )
        swapped = {name: files for name, (_, files) in lab.items()}
        rows, adapter = job.run_cases(named, given.mode, where, note, {}, swapped)
    for row in rows:
        i = int(row["name"].removesuffix(job.LAB))
        price = report.priced_in_f16 if row["name"] in lab else report.priced
        result["loops"][i] = price(result["loops"][i], row)
    result |= {"adapter": adapter, "mode": rows[0]["mode"]}
    result["metrics"] = report.metrics(rows)
