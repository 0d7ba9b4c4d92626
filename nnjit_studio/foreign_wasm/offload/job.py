"""Loops of a Wasm module on the GPU of a browser: prices, checks, counters."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.engine.browsers import browsers
from nnjit_studio.engine.pages.gpu import GpuPage
from nnjit_studio.engine.pages.opening import open_page
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.foreign_wasm.offload.cases import Case
from nnjit_studio.foreign_wasm.offload.detect import Verdict, of_function
from nnjit_studio.foreign_wasm.offload.extract import ENTRY, extract
from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.plan import Planned, in_f16, kernel_of, plan
from nnjit_studio.foreign_wasm.offload.rewrite import rewrite
from nnjit_studio.wasm_file.module import Module, read

Note = Callable[[str], None]
MODES = ("jspi", "blocking")
"""How the module's thread waits for the GPU."""
LAB = " f16"
"""Ends the names of the lab's cases."""


@dataclass(frozen=True)
class Where:
    """A browser, its adapter (one of ``GPU_MODES``), and the folder that its page reads."""

    folder: Path
    target: str = "chromium"
    no_sandbox: bool = False
    gpu: str = ""


def nests_of(
    module: Module, kernels: dict[str, bytes], functions: Collection[int] | None = None
) -> list[Planned]:
    """The nests of a module that have kernels, or of some of its functions."""
    nests = []
    for index in module.defined if functions is None else sorted(functions):
        for verdict in of_function(module, index):
            if verdict.found is None:
                continue
            with contextlib.suppress(Refused):
                kernel = kernel_of(verdict.found.lowered, kernels)
                nests.append(Planned(verdict, verdict.found, kernel))
    return nests


def offloaded(module: Module, nests: Sequence[Planned]) -> tuple[bytes, str]:
    """The rewritten module and its plan as JSON."""
    data = rewrite(module, [(nest.verdict.function, nest.found) for nest in nests])
    return data, json.dumps(plan(nests))


def case_of(verdict: Verdict, always: bool = False) -> Case | None:
    """A case of one nest alone, as a module of its own; None where it cannot stand alone."""
    made = None if verdict.found is None else extract(verdict.found)
    if made is None:
        return None
    name = f"{verdict.name or verdict.function} loop {verdict.loop}"
    return Case(name, made.data, ENTRY, (), made.regions, always=always)


def lab_case(case: Case) -> tuple[Case, tuple[bytes, str]] | None:
    """A case of one nest with the lab's kernel, its module and plan; None where it has none."""
    module = read(case.module)
    made = [lab for nest in nests_of(module, {}) if (lab := in_f16(nest)) is not None]
    return (replace(case, name=case.name + LAB), offloaded(module, made)) if made else None


def run_cases(
    cases: Sequence[Case],
    mode: str,
    where: Where,
    note: Note,
    kernels: dict[str, bytes],
    swapped: Mapping[str, tuple[bytes, str]] | None = None,
    on_row: Callable[[dict[str, Any]], None] = lambda row: None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What the page reports of each case, and of its adapter.

    Parameters
    ----------
    swapped
        Rewritten module and plan of cases by name, where they are not made here.
    on_row
        Gets the report of each case as it comes.

    Raises
    ------
    UserError, TargetError, PageError
    """
    jobs = [_written(i, case, where, kernels, swapped or {}) for i, case in enumerate(cases)]
    browser, rows = browsers.find(where.target), []
    with (
        PageServer({"files": where.folder}) as server,
        open_page(server, browser, "gpu/offload.html", where.no_sandbox, gpu=where.gpu),
    ):
        page = GpuPage(server, where.folder)
        note(f"adapter: {page.profile.name}")
        for row in page.rows({"mode": mode, "cases": jobs}):
            rows.append(row)
            on_row(row)
            note(f"measured {len(rows)} of {len(jobs)}")
        return rows, page.told


def _written(
    number: int,
    case: Case,
    where: Where,
    kernels: dict[str, bytes],
    swapped: Mapping[str, tuple[bytes, str]],
) -> dict[str, Any]:
    """The case as the page reads it, its files in the options' folder."""
    known = swapped.get(case.name)
    if known is None:
        module = read(case.module)
        known = offloaded(module, nests_of(module, kernels))
    names = {"wasm": f"{number}.wasm", "swapped": f"{number}.swapped.wasm"}
    (where.folder / names["wasm"]).write_bytes(case.module)
    (where.folder / names["swapped"]).write_bytes(known[0])
    (where.folder / f"{number}.json").write_text(known[1])
    told = asdict(replace(case, module=b""))
    del told["module"]
    return {**told, **names, "plan": f"{number}.json", "fill": told.pop("regions")}
