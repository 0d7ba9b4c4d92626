"""A model small enough to write by hand: y = x + w, one kernel."""

from __future__ import annotations

import hashlib

import numpy as np
import wasmtime

from nnjit_studio.model import Plan, PlanBuffer, PlanPort, PlanStep, TensorSpec
from nnjit_studio.records import Fixture, FixtureArg, Kernel

N = 6
WORKLOAD = f"add:{N}:f32#tiny"

_WAT = """
(module
  (import "env" "memory" (memory 1))
  (func (export "run") (param $x i32) (param $w i32) (param $y i32)
        (param $begin i32) (param $end i32)
    (local $i i32)
    (local.set $i (i32.shl (local.get $begin) (i32.const 2)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $i) (i32.shl (local.get $end) (i32.const 2))))
        (f32.store (i32.add (local.get $y) (local.get $i))
          (f32.{op} (f32.load (i32.add (local.get $x) (local.get $i)))
                    (f32.load (i32.add (local.get $w) (local.get $i)))))
        (local.set $i (i32.add (local.get $i) (i32.const 4)))
        (br $next)))))
"""

_PEAK_WAT = """
(module
  (import "env" "memory" (memory 1))
  (func (export "run") (param $begin i32) (param $end i32)
    (local $v v128)
    (loop $next
      (local.set $v (f32x4.add (f32x4.mul (local.get $v) (local.get $v)) (local.get $v)))
      (local.set $begin (i32.add (local.get $begin) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $begin) (local.get $end))))
    (v128.store (i32.const 0) (local.get $v))))
"""


def endless_kernel() -> Kernel:
    """One that never returns."""
    return _kernel(_WAT.format(op="add").replace("br_if $done", "br_if $next"))


def kernel(op: str = "add", number: int | None = None) -> Kernel:
    """``number``: in a custom section, which gives it bytes of its own."""
    own = b"" if number is None else b"\0\x0a\x05nonce" + number.to_bytes(4, "little")
    return _kernel(_WAT.format(op=op), own)


def _kernel(wat: str, more: bytes = b"") -> Kernel:
    data = bytes(wasmtime.wat2wasm(wat)) + more
    return Kernel(
        WORKLOAD, None, "simd128", data, hashlib.sha256(data).hexdigest(), parallel_extent=N
    )


def peak_kernel() -> tuple[str, bytes, int]:
    return "simd128", bytes(wasmtime.wat2wasm(_PEAK_WAT)), 8


def plan_and_weights() -> tuple[Plan, bytes]:
    weights = np.arange(16, dtype=np.float32) * 10
    plan = Plan(
        "tiny",
        inputs=(PlanPort(TensorSpec("x", (2, 3), "f32"), 0),),
        outputs=(PlanPort(TensorSpec("y", (2, 3), "f32"), 2),),
        buffers=(
            PlanBuffer("arena", 0, N * 4),
            PlanBuffer("weight", 0, N * 4),
            PlanBuffer("arena", 64, N * 4),
        ),
        steps=(PlanStep("call", WORKLOAD, (0, 1, 2), "add_0"), PlanStep("return")),
        weights_bytes=64,
        arena_bytes=128,
    )
    return plan, weights.tobytes()


def fixture() -> Fixture:
    x = np.linspace(-1, 1, N, dtype=np.float32)
    w = np.linspace(2, 5, N, dtype=np.float32)
    args = (
        FixtureArg("input", "f32", N * 4, x.tobytes()),
        FixtureArg("input", "f32", N * 4, w.tobytes()),
        FixtureArg("output", "f32", N * 4),
    )
    return Fixture(WORKLOAD, args, (x + w,), (np.full(N, 1e-5, np.float32),))
