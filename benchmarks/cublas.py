"""Products in float32 by cuBLAS, as a yardstick for `nnjit bench kernels --backend webgpu`.

    python benchmarks/cublas.py [WORKLOAD ...] > cublas.json

Needs PyTorch with CUDA, which the Studio itself does not. Tensor cores are off (no TF32). A
CUDA graph holds many products, so that no launch is counted; the GPU is kept busy before each
sample. The JSON: `gpu_ms` of one product by workload (the median), and how it was measured.
"""

from __future__ import annotations

import json
import statistics
import sys

import torch

WORKLOADS = (
    "matmul:384x768x768:f32",
    "matmul:640x768x3072:f32",
    "batch_matmul:12x384x384x64:f32",
    "batch_matmul:120x64x64x64:f32",
    "matmul:4096x4096x4096:f32",
)
SAMPLES = 9
SAMPLE_MS = 20.0


def gpu_ms(workload: str) -> float:
    """Median ms of one product of a workload such as ``matmul:384x768x768:f32``."""
    *batch, m, k, n = map(int, workload.split(":")[1].split("x"))
    left = torch.rand((*batch, m, k), device="cuda") * 2 - 1
    right = torch.rand((*batch, k, n), device="cuda") * 2 - 1
    out = torch.empty((*batch, m, n), device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            torch.matmul(left, right, out=out)
    stream.synchronize()
    once = _timed(lambda: torch.matmul(left, right, out=out))
    count = max(2, min(400, round(SAMPLE_MS / once)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            torch.matmul(left, right, out=out)
    busy = torch.rand((4096, 4096), device="cuda")
    samples = []
    for _ in range(SAMPLES):
        for _ in range(8):
            torch.matmul(busy, busy)
        samples.append(_timed(graph.replay) / count)
    return statistics.median(samples)


def _timed(work: object) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()  # type: ignore[operator]
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def main() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    found = {workload: gpu_ms(workload) for workload in sys.argv[1:] or WORKLOADS}
    result = {
        "library": f"torch {torch.__version__}, CUDA {torch.version.cuda}",
        "device": torch.cuda.get_device_name(),
        "how": f"float32 without TF32, in a CUDA graph, median of {SAMPLES}",
        "gpu_ms": found,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
