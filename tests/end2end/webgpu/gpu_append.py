"""A cache on a GPU: what `append` writes, read back by a kernel that copies words."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.errors import PageError
from nnjit_studio.model import Append, Plan, PlanBuffer, PlanPort, PlanStep, TensorSpec
from nnjit_studio.records import Kernel

HEADS, CAPACITY = 3, 6
WORKLOAD = "copy#append"
DTYPES = {4: "f32", 2: "f16", 1: "u8"}


def copy_kernel(words: int) -> Kernel:
    code = (
        "@group(0) @binding(0) var<storage, read> x: array<u32>;"
        "@group(0) @binding(1) var<storage, read_write> y: array<u32>;"
        "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {"
        f"if (id.x < {words}u) {{ y[id.x] = x[id.x]; }} }}"
    )
    dispatch = {
        "code": code, "entry": "main", "workgroups": [-(-words // 64), 1, 1],
        "bindings": ["a0", "a1"], "access": ["read", "read_write"],
    }  # fmt: skip
    data = {"version": 1, "scratch": [], "requires": [], "dispatches": [dispatch]}
    text = json.dumps(data).encode()
    return Kernel(WORKLOAD, None, "wgsl", text, hashlib.sha256(text).hexdigest())


def cache_plan(append: Append) -> Plan:
    """Appends the input's rows and gives the whole cache out."""
    rows = HEADS * append.rows * append.width
    cache = HEADS * CAPACITY * append.width
    nbytes = -(-cache * append.nbytes // 4) * 4
    dtype = DTYPES[append.nbytes]
    return Plan(
        "cache",
        inputs=(
            PlanPort(TensorSpec("rows", (rows,), dtype), 0),
            PlanPort(TensorSpec("slot", (1,), "i64"), 1),
        ),
        outputs=(PlanPort(TensorSpec("cache", (cache,), dtype), 3),),
        buffers=(
            PlanBuffer("arena", 0, rows * append.nbytes),
            PlanBuffer("arena", 512, 8),
            PlanBuffer("state", 0, nbytes),
            PlanBuffer("arena", 1024, nbytes),
        ),
        steps=(
            PlanStep("append", args=(0, 2, 1), node="append", append=append),
            PlanStep("call", WORKLOAD, (2, 3), "copy"),
            PlanStep("return"),
        ),
        weights_bytes=0,
        arena_bytes=2048,
        state_bytes=512,
    )


def check(runner: PageRunner, folder: Path, append: Append) -> None:
    """Two appends, each beside NumPy's, and one that does not fit."""
    plan = cache_plan(append)
    weights = folder / "none.bin"
    weights.write_bytes(b"")
    runner.load(plan, weights)
    runner.register([copy_kernel(plan.buffers[3].nbytes // 4)])
    dtype = {4: np.float32, 2: np.float16, 1: np.uint8}[append.nbytes]
    shape = (HEADS, append.width, CAPACITY) if append.columns else (HEADS, CAPACITY, append.width)
    expected = np.zeros(shape, dtype)
    for slot in (1, CAPACITY - append.rows):
        rows = np.arange(HEADS * append.rows * append.width) % 200 + slot
        new = rows.astype(dtype).reshape(HEADS, append.rows, append.width)
        if append.columns:
            expected[:, :, slot : slot + append.rows] = new.transpose(0, 2, 1)
        else:
            expected[:, slot : slot + append.rows] = new
        feeds = {"rows": new.ravel(), "slot": np.array([slot])}
        got = runner.infer(feeds).outputs["cache"]
        np.testing.assert_array_equal(got.reshape(shape), expected)
    with pytest.raises(PageError, match="do not fit"):
        runner.infer({"rows": new.ravel(), "slot": np.array([CAPACITY])})


def check_pair(runner: PageRunner, folder: Path) -> None:
    """Keys kept in columns and values in rows, appended at one slot in one dispatch."""
    for nbytes, dtype in ((4, np.float32), (2, np.float16)):
        _check_pair(runner, folder, nbytes, dtype)


def _check_pair(runner: PageRunner, folder: Path, nbytes: int, dtype: Any) -> None:
    kinds = [Append(HEADS, 1, 4, CAPACITY, nbytes, columns) for columns in (True, False)]
    one = cache_plan(kinds[0])
    cache, fresh = one.buffers[3].nbytes, one.buffers[0].nbytes
    ports = [
        PlanPort(TensorSpec(n, (HEADS * 4,), DTYPES[nbytes]), i)
        for n, i in (("keys", 0), ("values", 4))
    ]
    plan = replace(
        one,
        inputs=(*ports, one.inputs[1]),
        outputs=tuple(
            PlanPort(replace(one.outputs[0].spec, name=name), i)
            for name, i in (("keys kept", 3), ("values kept", 6))
        ),
        buffers=(
            *one.buffers,
            PlanBuffer("arena", 256, fresh),
            PlanBuffer("state", 512, cache),
            PlanBuffer("arena", 1536, cache),
        ),
        steps=(
            PlanStep("append", args=(0, 2, 1), node="keys", append=kinds[0]),
            PlanStep("append", args=(4, 5, 1), node="values", append=kinds[1]),
            PlanStep("call", WORKLOAD, (2, 3), "copy"),
            PlanStep("call", WORKLOAD, (5, 6), "copy too"),
            PlanStep("return"),
        ),
        state_bytes=1024,
    )
    runner.load(plan, folder / "none.bin")
    runner.register([copy_kernel(cache // 4)])
    keys, values = np.arange(24, dtype=dtype).reshape(2, HEADS, 4) + 1
    got = runner.infer({"keys": keys.ravel(), "values": values.ravel(), "slot": np.array([2])})
    kept = np.zeros((HEADS, 4, CAPACITY), dtype)
    kept[:, :, 2] = keys
    np.testing.assert_array_equal(got.outputs["keys kept"].reshape(kept.shape), kept)
    kept = np.zeros((HEADS, CAPACITY, 4), dtype)
    kept[:, 2] = values
    np.testing.assert_array_equal(got.outputs["values kept"].reshape(kept.shape), kept)


CASES = [
    Append(HEADS, 2, 5, CAPACITY, 4),
    Append(HEADS, 2, 5, CAPACITY, 4, columns=True),
    Append(HEADS, 2, 4, CAPACITY, 2),
    Append(HEADS, 1, 5, CAPACITY, 2),
    Append(HEADS, 2, 5, CAPACITY, 2, columns=True),
    Append(HEADS, 4, 5, CAPACITY, 2, columns=True),
    Append(HEADS, 2, 5, CAPACITY, 1),
    Append(HEADS, 1, 5, CAPACITY, 1, columns=True),
]
"""Words, halves and bytes; whole lines of words, shared words, and lines of their own."""
