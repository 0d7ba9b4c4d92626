"""Loops of recurrent layers in WGSL: a workgroup for each element of the batch."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recurrent_layers import feeds_of, imported, layers
from run_plan_wgsl import run_by_documents

from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.recognize.recurrent import STAGE
from nnjit_studio.compiler.wgsl.core.document import KernelDocument


@settings(max_examples=10)
@given(model=layers(hidden=st.sampled_from([1, 4, 7, 20, 600])), seed=st.integers(0, 99))
def test_a_layer_is_right(
    model: onnx.ModelProto, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    feeds = feeds_of(model, seed)
    built, weights = imported(model, tmp_path_factory.mktemp("m"), any_size=True)
    got = run_by_documents(built, weights, feeds, "wgsl")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for output, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(got[output.name], expected, rtol=1e-4, atol=2e-5)
    loops = [p for p in built.programs.values() if p.stages[0].name == STAGE]
    for program in loops:
        document = KernelDocument.from_bytes(compile_wgsl(program, None, "wgsl").data)
        (dispatch,) = document.dispatches
        (batch,) = program.stages[0].axes
        assert dispatch.workgroups == (batch.extent, 1, 1)
        assert "@workgroup_size(256)" in dispatch.code
    assert loops
