"""WGSL kernels that measure a GPU's limits: multiply-adds in registers, and a copy."""

from __future__ import annotations

from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument

_CHAINS = 8  # independent vec4 chains: 32 multiply-adds in flight a thread
_ROUNDS = 64
_UNROLL = 4
_THREADS = 256
_LARGEST = 65535
PEAK_WORKGROUPS = 2048


def peak_document(workgroups: int = PEAK_WORKGROUPS) -> tuple[KernelDocument, int]:
    """Independent chains of ``fma`` on ``vec4<f32>``, and the flops of one run.

    It has no arguments: what it computes goes to scratch. Each chain starts
    from the thread's number and converges (a factor below 1, a small addend),
    so nothing is known before it runs and nothing overflows. An fma counts as
    two operations.
    """
    chains = range(_CHAINS)
    lines = [
        "@group(0) @binding(0) var<storage, read_write> result: array<vec4<f32>>;",
        f"@compute @workgroup_size({_THREADS})",
        "fn main(@builtin(global_invocation_id) id: vec3<u32>) {",
        "  let factor = vec4<f32>(0.999);",
        "  let addend = vec4<f32>(f32(id.x & 15u));",
        *(f"  var c{i} = vec4<f32>(f32(id.x) + {i}.0);" for i in chains),
        f"  for (var i = 0u; i < {_ROUNDS}u; i++) {{",
        *(f"    c{i} = fma(c{i}, factor, addend);" for _ in range(_UNROLL) for i in chains),
        "  }",
        f"  result[id.x] = {' + '.join(f'c{i}' for i in chains)};",
        "}",
    ]
    dispatch = Dispatch("\n".join(lines) + "\n", (workgroups, 1, 1), ("s0",), ("read_write",))
    flops = 2 * 4 * _CHAINS * _UNROLL * _ROUNDS * _THREADS * workgroups
    return KernelDocument((dispatch,), scratch=(16 * _THREADS * workgroups,)), flops


def copy_document(nbytes: int) -> tuple[KernelDocument, int]:
    """Copies argument 0 to argument 1, and the bytes that it moves: each read and written once.

    ``nbytes`` is a multiple of 16; choose it larger than the caches.
    """
    elements = nbytes // 16
    groups = -(-elements // _THREADS)
    x = min(groups, _LARGEST)
    lines = [
        "@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;",
        "@group(0) @binding(1) var<storage, read_write> target_: array<vec4<f32>>;",
        f"@compute @workgroup_size({_THREADS})",
        "fn main(@builtin(global_invocation_id) id: vec3<u32>) {",
        f"  let i = id.y * {x * _THREADS}u + id.x;",
        f"  if (i < {elements}u) {{ target_[i] = source[i]; }}",
        "}",
    ]
    dispatch = Dispatch(
        "\n".join(lines) + "\n", (x, -(-groups // x), 1), ("a0", "a1"), ("read", "read_write")
    )
    return KernelDocument((dispatch,)), 32 * elements
