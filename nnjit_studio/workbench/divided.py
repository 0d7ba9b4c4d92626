"""The open model's steps divided between WebGPU and Wasm: where the GPU cannot run them all, and
where that was measured to be faster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import msgspec

from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.model import Workload
from nnjit_studio.model.placement import GPU, CopyCost, Device, place, works
from nnjit_studio.model.segments import divide
from nnjit_studio.records import GPU_TIERS
from nnjit_studio.records.backend import is_software
from nnjit_studio.support.files import write_own_json
from nnjit_studio.workbench.open_model import OpenModel
from nnjit_studio.workbench.page import EnginePage

FILE = "step_times.json"
"""Next to the kernel database."""
LIMIT = 20


@dataclass(frozen=True)
class StepTimes:
    """What a division is made by, as measured on a target."""

    times: Mapping[str, tuple[float, float]]
    """Ms on the GPU and in Wasm, by the key of a workload."""
    cost: CopyCost
    path: str = ""
    """Of the model's file."""
    target: str = ""


def divided(opened: OpenModel, compiler: Compiler, measured: StepTimes | None = None) -> OpenModel:
    """The model with its steps divided; undivided where the GPU runs all of them, or none.

    Without times only what has no kernel for the GPU runs in Wasm. Models of several programs,
    with a state or with loops are not divided.
    """
    plan, known = opened.plan, measured or StepTimes({}, CopyCost())
    tier = GPU_TIERS[:1]
    on_gpu = {w.key for w in opened.workloads if not compiler.compile(w, None, tier).error}
    steps = works(plan, opened.graph.nodes, on_gpu, known.times)
    if steps is None or len(opened.programs) > 1:
        return replace(opened, mixed=None)
    nbytes = {i: buffer.nbytes for i, buffer in enumerate(plan.buffers)}
    inputs, outputs = ([p.buffer for p in ports] for ports in (plan.inputs, plan.outputs))
    devices = place(steps, nbytes, inputs, outputs, known.cost)
    mixed = divide(plan, steps, devices) if len(set(devices)) > 1 else None
    return replace(opened, mixed=mixed)


def for_gpu(opened: OpenModel, page: EnginePage, target: str = "") -> OpenModel:
    """The model as it is loaded for WebGPU: divided where that was measured to be faster, or where
    a GPU cannot even load it whole.

    Without a ``target`` what was measured last on any GPU counts.
    """
    known = recalled(page.database.path.parent, opened.path, target)
    return divided(opened, page.compiler, known) if known or cannot_load(opened) else opened


def cannot_load(opened: OpenModel) -> bool:
    """Whether a GPU refuses the model as it is: an output is as large as its data says."""
    return opened.mixed is None and any(port.found for port in opened.plan.outputs)


def run_by(opened: OpenModel, device: Device) -> list[Workload]:
    """The workloads of a model that a device runs on a page on WebGPU."""
    if opened.mixed is None:
        return list(opened.workloads) if device == GPU else []
    return [w for w in opened.workloads if w.key in opened.mixed.workloads(device)]


def _known(folder: Path) -> list[StepTimes]:
    """The newest first; empty where the file is missing or none of ours."""
    try:
        return msgspec.convert(json.loads((folder / FILE).read_text()), list[StepTimes])
    except (OSError, ValueError):
        return []


def recalled(folder: Path, path: Path, target: str = "") -> StepTimes | None:
    """The times by which a model was divided; without a target those of any GPU."""
    mine = (k for k in _known(folder) if k.path == str(path.absolute()))
    return next(
        (k for k in mine if (k.target == target if target else not is_software(k.target))), None
    )


def remember(folder: Path, path: Path, target: str, measured: StepTimes | None) -> None:
    """Keep the times by which a model is divided on a target; None: it is not.

    Raises
    ------
    UserError
        When the file cannot be written.
    """
    place = str(path.absolute()), target
    known = _known(folder)
    others = [k for k in known if (k.path, k.target) != place]
    if measured is None and len(others) == len(known):
        return
    mine = [] if measured is None else [replace(measured, path=place[0], target=place[1])]
    write_own_json(folder / FILE, [asdict(each) for each in (*mine, *others)[:LIMIT]])
