"""Runs a built model's plan with WGSL kernels on wgpu-native, each on copies of its arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from run_plan import Arrays, run_plan
from wgsl_harness import run_program

from nnjit_studio.compiler.importer import BuiltModel
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl


def run_by_documents(
    built: BuiltModel, weights: Path, feeds: Arrays, tier: str
) -> dict[str, np.ndarray]:
    """Outputs by ONNX name."""
    kernels = {key: compile_wgsl(p, None, tier).data for key, p in built.programs.items()}
    return run_plan(
        built, weights, feeds, lambda key, p, arrays: run_program(p, kernels[key], arrays)
    )
