"""WGSL kernels of a bundle: chosen, and checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nnjit_studio.bundle.manifest import BundleKernel, gpu_file_name
from nnjit_studio.errors import BundleError
from nnjit_studio.model import Plan
from nnjit_studio.model.open_plan import (
    OPEN_DOCUMENT_VERSION,
    SCALARS,
    OpenDocument,
    OpenPlan,
)
from nnjit_studio.records import GPU_TIERS, Kernel

DOCUMENT_VERSION = 1
ACCESSES = ("read", "read_write")
UNIFORM = ("z", "uniform")
"""The block of sizes, and how it is bound."""
MOST_WORKGROUPS = 65535
"""Of a dimension: the least ``maxComputeWorkgroupsPerDimension`` that WebGPU allows."""


def gpu_entries(kernels: Sequence[Kernel], called: set[str]) -> dict[str, list[Kernel]]:
    """The GPU kernels of each called workload; nothing when there are none at all.

    Raises
    ------
    BundleError
        When some workloads have one and others have none, or tiers differ in their candidate.
    """
    found: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        if kernel.tier in GPU_TIERS and kernel.workload in called:
            found.setdefault(kernel.workload, []).append(kernel)
    if not found:
        return {}
    for workload in sorted(called):
        tiers = {k.tier for k in found.get(workload, ())}
        if GPU_TIERS[0] not in tiers:
            raise BundleError(
                f"The workload {workload} has no kernel of the tier {GPU_TIERS[0]}.",
                "Export without kernels for WebGPU.",
            )
        if len({k.settings for k in found[workload]}) > 1:
            raise BundleError(
                f"The GPU tiers of {workload} come from different candidates.",
                "Compile all tiers of one candidate, then export.",
            )
    return found


@dataclass(frozen=True)
class _Dispatch:
    code: str
    entry: str
    workgroups: tuple[int, int, int]
    bindings: list[str]
    access: list[str]


@dataclass(frozen=True)
class _Document:
    version: int
    scratch: list[int]
    requires: list[str]
    dispatches: list[_Dispatch]


def document_arguments(data: bytes, plan: OpenPlan | None = None) -> dict[int, str]:
    """The arguments that a kernel document binds, by number, and how: ``read`` or ``read_write``.

    Parameters
    ----------
    plan
        Of a model for any size; its kernels have formulas.

    Raises
    ------
    ValueError
        When it is no document of a known version, with the reason.
    """
    try:
        document = _open_document(data, plan) if plan else msgspec.json.decode(data, type=_Document)
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise ValueError(f"it is no kernel document ({e})") from e
    if document.version != (OPEN_DOCUMENT_VERSION if plan else DOCUMENT_VERSION):
        raise ValueError(f"its version is {document.version!r}")
    if any(nbytes < 0 for nbytes in document.scratch):
        raise ValueError("a scratch has a negative size")
    arguments: dict[int, str] = {}
    for dispatch in document.dispatches:
        for number, access in _bindings(dispatch, len(document.scratch), plan is not None):
            if access == ACCESSES[1] or number not in arguments:
                arguments[number] = access
    if not arguments:
        raise ValueError("it binds no argument")
    return arguments


def _open_document(data: bytes, plan: OpenPlan) -> _Document:
    """As it is at the sizes of the plan's example."""
    fields = msgspec.json.decode(data, type=dict[str, Any])
    document = OpenDocument.from_json(fields, plan.dims)
    if any(scalar.kind not in SCALARS for scalar in document.sizes):
        raise ValueError("a size has an unknown kind")
    sized = {"version": fields.get("version"), **document.at(plan.example)}
    return msgspec.convert(sized, _Document)


def _bindings(dispatch: _Dispatch, scratches: int, sized: bool) -> Iterator[tuple[int, str]]:
    """Arguments of one dispatch, after checking all of it."""
    groups = dispatch.workgroups
    if not all(1 <= n <= MOST_WORKGROUPS for n in groups):
        raise ValueError(f"a dispatch of {groups} workgroups runs nowhere")
    if len(dispatch.bindings) != len(dispatch.access):
        raise ValueError("a binding has no access")
    for name, access in zip(dispatch.bindings, dispatch.access, strict=True):
        form = re.fullmatch(r"([as])(0|[1-9][0-9]*)", name)
        if sized and (name, access) == UNIFORM:
            continue
        if access not in ACCESSES or form is None:
            raise ValueError(f"the binding {name!r} {access!r} is none")
        if form[1] == "s" and int(form[2]) >= scratches:
            raise ValueError(f"there is no scratch {name!r}")
        if form[1] == "a":
            yield int(form[2]), access


def kernel_problems(
    kernels: Sequence[BundleKernel],
    documents: Mapping[str, bytes],
    plans: Sequence[Plan],
    open_plan: OpenPlan | None = None,
) -> Iterator[str]:
    """What is wrong with the GPU kernels, one sentence each.

    Parameters
    ----------
    documents
        Contents by file name.
    open_plan
        Of a model for any size; ``plans`` is then it at its example, calling its kernels by name.
    """
    by_workload = {kernel.workload: kernel for kernel in kernels}
    if len(by_workload) < len(kernels):
        yield "A workload has two GPU kernels."
    arguments: dict[str, dict[int, str]] = {}
    for kernel in kernels:
        for tier, file in kernel.tiers.items():
            if file.file != gpu_file_name(file.sha256):
                yield f"The GPU kernel {file.file!r} is not named by its sha256."
            try:
                found = document_arguments(documents[file.file], open_plan)
            except ValueError as e:
                yield f"The {tier} kernel of {kernel.workload} is refused: {e}."
                continue
            for number, access in found.items():
                mine = arguments.setdefault(kernel.workload, {})
                mine[number] = max(access, mine.get(number, ""))
    steps = [(plan, step) for plan in plans for step in plan.steps if step.op == "call"]
    for missing in sorted({s.workload for _, s in steps} - by_workload.keys()):
        yield f"The workload {missing} has no kernel for WebGPU."
    for plan, step in steps:
        for number, access in arguments.get(step.workload, {}).items():
            if number >= len(step.args):
                yield f"A GPU kernel of {step.workload} has no argument {number} in the plan."
                break
            if step.args[number] >= len(plan.buffers):
                break  # told of the plan already
            if access != "read" and plan.buffers[step.args[number]].region == "weight":
                yield f"A GPU kernel of {step.workload} writes into a weight."
                break
