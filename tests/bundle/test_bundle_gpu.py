"""The WGSL kernels of a bundle: written beside the Wasm ones, read back, refused when wrong."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_bundle import kernels, rewrite, weights, write  # noqa: F401

from nnjit_studio.bundle import read_bundle, verify_bundle
from nnjit_studio.bundle.gpu_kernels import document_arguments
from nnjit_studio.errors import BundleError
from nnjit_studio.model import PlanStep
from nnjit_studio.model.placement import NEVER, Work
from nnjit_studio.model.segments import MixedPlan, divide
from nnjit_studio.records import Kernel
from nnjit_studio.records.gpu_candidate import GpuCandidate

CANDIDATE = GpuCandidate(4, 4, 1, 16, 16, 8)


def document(arguments: int, **changes: Any) -> bytes:
    access = ["read"] * (arguments - 1) + ["read_write"]
    dispatch = {
        "code": "@compute @workgroup_size(1) fn main() {}",
        "entry": "main",
        "workgroups": [2, 1, 1],
        "bindings": [f"a{i}" for i in range(arguments)],
        "access": access,
    } | changes
    whole = {"version": 1, "scratch": [16], "requires": [], "dispatches": [dispatch]}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def gpu_kernel(workload: str, data: bytes, tier: str = "wgsl", tuned: bool = False) -> Kernel:
    digest = hashlib.sha256(data).hexdigest()
    return Kernel(workload, CANDIDATE if tuned else None, tier, data, digest)


def gpu_kernels() -> list[Kernel]:
    return [
        gpu_kernel("matmul#1", document(3), tuned=True),
        gpu_kernel("matmul#1", document(3, entry="other"), "wgsl-subgroups", True),
        gpu_kernel("relu#1", document(2)),
    ]


def test_kernels_of_both_backends_come_back(write: Callable[..., Path]) -> None:  # noqa: F811
    path = write(kernels=[*kernels(), *gpu_kernels()])
    report = verify_bundle(path)
    assert report.ok and report.kernels == 6
    bundle = read_bundle(path)
    order = lambda k: (k.workload, k.tier)  # noqa: E731
    assert sorted(bundle.kernels, key=order) == sorted([*kernels(), *gpu_kernels()], key=order)
    assert {k.workload for k in bundle.manifest.gpu_kernels} == {"matmul#1", "relu#1"}


def test_a_bundle_without_them_says_nothing_of_them(write: Callable[..., Path]) -> None:  # noqa: F811
    manifest = read_bundle(write()).manifest
    assert manifest.gpu_kernels == () and "gpu_kernels" not in manifest.to_json()


def test_wasm_memory_ends_where_that_of_a_gpu_does_not(write: Callable[..., Path]) -> None:  # noqa: F811
    plan = replace(read_bundle(write()).plan, arena_bytes=5 << 30)
    assert verify_bundle(write(plan=plan, kernels=[*kernels(), *gpu_kernels()])).ok
    with pytest.raises(BundleError, match="more memory than a page has"):
        write(plan=plan)


def test_some_workloads_without_a_kernel_are_refused(write: Callable[..., Path]) -> None:  # noqa: F811
    with pytest.raises(BundleError, match="relu#1 has no kernel of the tier wgsl"):
        write(kernels=[*kernels(), *gpu_kernels()[:2]])
    mixed = replace(gpu_kernels()[1], candidate=None)
    with pytest.raises(BundleError, match="different candidates"):
        write(kernels=[*kernels(), gpu_kernels()[0], mixed, gpu_kernels()[2]])


def test_a_divided_plan_has_kernels_of_the_gpus_steps_alone(write: Callable[..., Path]) -> None:  # noqa: F811
    plan = read_bundle(write()).plan
    steps = [Work((1,), (2,)), Work((2,), (3,), NEVER, 0.0)]
    mixed = divide(plan, steps, ["webgpu", "wasm"])
    given = {"kernels": [*kernels(), *gpu_kernels()[:2]], "mixed": mixed}
    bundle = read_bundle(write(**given))
    assert {k.workload for k in bundle.manifest.gpu_kernels} == {"matmul#1"}
    assert bundle.manifest.mixed and bundle.plan == plan
    first, second = mixed.segments
    other = replace(second.plan, steps=(PlanStep("return"),))
    nothing = replace(first.plan, outputs=())
    far = replace(
        second.plan,
        buffers=(replace(second.plan.buffers[0], offset=1 << 20), *second.plan.buffers[1:]),
    )
    for segments, words in (
        ((first,), "are not the steps of the plan"),
        ((first, replace(second, plan=other)), "are not the steps of the plan"),
        ((first, replace(second, first=0)), "is not where its numbers say"),
        ((first, replace(second, buffers=(2,))), "is not where its numbers say"),
        ((replace(first, plan=nothing), second), "which nothing leaves"),
        ((first, replace(second, plan=replace(second.plan, outputs=()))), "leave the outputs"),
        ((first, replace(second, plan=far)), "Segment 1: Buffer 0 is misaligned or outside"),
        ((first, replace(second, device="webgpu")), "relu#1 has no kernel of the tier wgsl"),
    ):
        with pytest.raises(BundleError, match=words):
            write(**given | {"mixed": MixedPlan(segments)})


def test_a_gpu_may_run_other_steps_over_the_same_buffers(write: Callable[..., Path]) -> None:  # noqa: F811
    plan = read_bundle(write()).plan
    relu = next(step for step in plan.steps if step.workload == "relu#1")
    other = replace(relu, workload="both#1")
    fused = replace(plan, gpu_steps=(other, PlanStep("return")))
    found = [*kernels(), gpu_kernel("both#1", document(len(other.args)))]
    bundle = read_bundle(write(plan=fused, kernels=found))
    assert bundle.plan == fused and bundle.plan.on_gpu.steps == fused.gpu_steps
    assert {k.workload for k in bundle.manifest.gpu_kernels} == {"both#1"}
    wild = replace(plan, gpu_steps=(replace(other, args=(99,)), PlanStep("return")))
    with pytest.raises(BundleError, match="names a buffer that does not exist"):
        write(plan=wild, kernels=found)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"bindings": ["a0", "a1", "a2", "a9"], "access": ["read"] * 4}, "no argument 9"),
        ({"access": ["read", "read_write", "read_write"]}, "writes into a weight"),
        ({"bindings": ["a0", "a1", "s7"]}, "there is no scratch"),
        ({"workgroups": [0, 1, 1]}, "runs nowhere"),
        ({"workgroups": [70000, 1, 1]}, "runs nowhere"),
        ({"code": 3}, "no kernel document"),
        ({"access": ["read"]}, "no access"),
        ({"bindings": ["a0", "a01", "a2"]}, "is none"),
    ],
)
def test_a_document_that_would_not_run_is_refused(
    write: Callable[..., Path],  # noqa: F811
    change: dict[str, Any],
    problem: str,
) -> None:
    bad = gpu_kernel("matmul#1", document(3, **change))
    with pytest.raises(BundleError, match=problem):
        write(kernels=[*kernels(), bad, gpu_kernels()[2]])


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b"{}", b'{"version":2}', b"[" * 10000])
def test_what_is_no_document_is_a_sentence(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"it|its"):
        document_arguments(data)


def test_a_changed_document_is_noticed(write: Callable[..., Path]) -> None:  # noqa: F811
    path = write(kernels=[*kernels(), *gpu_kernels()])
    name = f"kernels/{gpu_kernels()[0].sha256}.json"

    def change(files: dict[str, bytes]) -> None:
        files[name] = files[name].replace(b"main()", b"evil()")

    assert "sha256" in verify_bundle(rewrite(path, change)).problems[0]
