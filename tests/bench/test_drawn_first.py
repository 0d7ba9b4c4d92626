"""First kernels that are drawn stand where the default ones would."""

from __future__ import annotations

from pathlib import Path

from drawn_first import DrawnFirst, draw
from onnx_models import mlp

from nnjit_studio.compiler.process.client import CompileProcess
from nnjit_studio.compiler.process.compiler import Compiler
from nnjit_studio.records import DeviceProfile


def test_the_default_kernel_is_the_drawn_one(tmp_path: Path) -> None:
    process = CompileProcess()
    try:
        model = process.import_model(mlp(tmp_path / "mlp.onnx"), tmp_path / "w.bin")
        device = DeviceProfile("some", "embedded", peak_gflops={"simd128": 40.0})
        drawn = draw(model.workloads, (), device, 3)
        assert drawn and drawn == draw(model.workloads, (), device, 3)
        workload = next(w for w in model.workloads if w.key in drawn)
        rules, ours = Compiler(process), DrawnFirst(process, drawn=drawn)
        asked = rules.compile(workload, drawn[workload.key], ("simd128",)).kernels[0]
        first = ours.compile(workload, None, ("simd128",))
        assert first.candidate is None and first.kernels[0].candidate is None
        assert first.kernels[0].data == asked.data
        assert ours.compile(workload, drawn[workload.key], ("simd128",)).kernels[0] == asked
    finally:
        process.close()
