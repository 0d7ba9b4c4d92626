"""Bundles of a model for any size: their plan has formulas, and a kernel for each remainder."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_bundle import CREATED, ENGINE, kernel, module

from nnjit_studio.bundle import BundleParts, read_bundle, verify_bundle, write_bundle
from nnjit_studio.errors import BundleError
from nnjit_studio.model import PlanStep
from nnjit_studio.model.open_plan import (
    OpenBuffer,
    OpenDispatch,
    OpenDocument,
    OpenKernel,
    OpenPlan,
    OpenPort,
    Scalar,
    Variant,
)
from nnjit_studio.model.size import Dim, size
from nnjit_studio.records import Kernel

N = Dim("n", 1, 100)


def plan() -> OpenPlan:
    """x[n, 4] -> y[n, 4], by one kernel for even n and one for odd n."""
    n = size(N)
    variants = tuple(Variant(name, (Scalar("int", n * 16),), n) for name in ("even", "odd"))
    return OpenPlan(
        "tiny",
        (N,),
        {"n": 6},
        (OpenPort("x", "f32", (n, size(4)), 0),),
        (OpenPort("y", "f32", (n, size(4)), 1),),
        (OpenBuffer("arena", 0, n * 16), OpenBuffer("arena", 0, n * 16)),
        (PlanStep("call", "k", (0, 1)), PlanStep("return")),
        {"k": OpenKernel(((n, 2),), variants)},
        0,
    )


def step(workload: str, *args: int) -> dict[str, Any]:
    return {"op": "call", "workload": workload, "args": args, "node": ""}


def written(folder: Path, given: OpenPlan, kernels: tuple[str, ...] = ("even", "odd")) -> Path:
    weights = folder / "w.bin"
    weights.write_bytes(b"")
    code = [kernel(name, module(3, salt)) for salt, name in enumerate(kernels)]
    parts = BundleParts(given.at(given.example), weights, code, ENGINE, open_plan=given)
    return write_bundle(folder / "b.zip", parts, "tiny", {}, CREATED)


def test_a_bundle_says_its_ranges_and_its_memory(tmp_path: Path) -> None:
    bundle = read_bundle(written(tmp_path, plan()))
    assert bundle.manifest.dims == (N,)
    assert bundle.manifest.inputs == bundle.plan.input_specs
    assert {k.workload for k in bundle.kernels} == {"even", "odd"}
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        text = archive.read("README.txt").decode()
    assert "n: 1 to 100" in text and "n 64: 0.1 MiB" in text


def test_an_input_keeps_the_value_that_the_plan_was_laid_out_for() -> None:
    rate = OpenPort("sr", "i64", (), 0, 16000)
    given = replace(plan(), inputs=(*plan().inputs, rate))
    again = OpenPlan.from_json(json.loads(json.dumps(given.to_json())))
    assert again == given
    assert [port.value for port in again.at({"n": 3}).inputs] == [None, 16000]
    assert all("value" not in port for port in plan().to_json()["inputs"])


def test_every_variant_needs_a_kernel(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="odd has no kernel"):
        written(tmp_path, plan(), ("even",))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda d: d["kernels"]["k"]["variants"].pop(), "number of variants|range"),
        (lambda d: d["kernels"]["k"]["variants"][0]["scalars"].clear(), "other arguments"),
        (lambda d: d["kernels"]["k"]["variants"][0]["scalars"][0].update(kind="x"), "unknown kind"),
        (lambda d: d["buffers"][0].update(nbytes=8), "too small"),
        (lambda d: d["buffers"][0].update(nbytes=[[1, "m"]]), "cannot be read"),
        (lambda d: d["example"].update(n=0), "dimension n is 0"),
        (lambda d: d["dims"][0].update(high=7), "are not those of the plan"),
        (lambda d: d.update(gpu_steps=[step("k", 0, 9), *d["steps"][1:]]), "Step 0 of a GPU names"),
        (lambda d: d.update(gpu_steps=[step("k", 0, 1)]), "one return at the end"),
    ],
)
def test_a_wrong_plan_is_a_problem(
    tmp_path: Path, damage: Callable[[Any], None], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.loads(json.dumps(plan().to_json()))
    damage(data)
    monkeypatch.setattr(OpenPlan, "to_json", lambda self: data)
    with pytest.raises(BundleError, match=told):
        written(tmp_path, plan())


def test_a_whole_bundle_has_no_problems(tmp_path: Path) -> None:
    assert verify_bundle(written(tmp_path, plan())).ok


def gpu_kernel(**changes: Any) -> Kernel:
    """Of the tiny plan, for WebGPU."""
    n = size(N)
    dispatch = OpenDispatch(
        "code",
        ((n + 63) // 64, size(1), size(1)),
        ("a0", "a1", "z"),
        ("read", "read_write", "uniform"),
        "main",
    )
    whole = replace(OpenDocument((Scalar("int", n),), (), (), (dispatch,)), **changes)
    data = whole.to_bytes()
    return Kernel("k", None, "wgsl", data, hashlib.sha256(data).hexdigest())


def with_gpu(folder: Path, *gpu: Kernel, given: OpenPlan | None = None) -> Path:
    weights = folder / "w.bin"
    weights.write_bytes(b"")
    given = given or plan()
    code = [kernel("even", module(3, 0)), kernel("odd", module(3, 1)), *gpu]
    parts = BundleParts(given.at(given.example), weights, code, ENGINE, open_plan=given)
    return write_bundle(folder / "b.zip", parts, "tiny", {}, CREATED)


def test_a_kernel_for_webgpu_is_one_for_all_remainders(tmp_path: Path) -> None:
    bundle = read_bundle(with_gpu(tmp_path, gpu_kernel()))
    assert [k.workload for k in bundle.manifest.gpu_kernels] == ["k"]
    (found,) = (k for k in bundle.kernels if k.tier == "wgsl")
    again = OpenDocument.from_json(json.loads(found.data), (N,))
    assert again.to_bytes() == found.data
    assert again.at({"n": 100})["dispatches"][0]["workgroups"] == [2, 1, 1]


def test_a_gpu_may_run_other_steps_and_needs_the_kernels_of_these(tmp_path: Path) -> None:
    steps = (PlanStep("call", "own", (0, 1)), PlanStep("return"))
    given = replace(plan(), gpu_steps=steps)
    own = replace(gpu_kernel(), workload="own")
    bundle = read_bundle(with_gpu(tmp_path, own, given=given))
    assert [k.workload for k in bundle.manifest.gpu_kernels] == ["own"]
    assert OpenPlan.from_json(json.loads(json.dumps(given.to_json()))) == given


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sizes": (Scalar("x", size(N)),)}, "a size has an unknown kind"),
        ({"scratch": (size(N) * -4,)}, "a scratch has a negative size"),
        ({"dispatches": ()}, "it binds no argument"),
    ],
)
def test_a_wrong_kernel_for_webgpu_is_a_problem(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(BundleError, match=told):
        with_gpu(tmp_path, gpu_kernel(**changes))
