"""Runs kernel documents on wgpu-native, for the compiler's tests: a software adapter will do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from kernel_harness import NUMPY

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.oracle.fixture import make_fixture
from nnjit_studio.compiler.wgsl.core.document import KernelDocument

wgpu = pytest.importorskip("wgpu", reason="wgpu needs Python 3.11")
_GUARD = 256  # bytes around each buffer, a binding's smallest alignment
_RED = 0xAB


@lru_cache(maxsize=1)
def device() -> Any:
    """A device with WebGPU's default limits; subgroups and f16 where the adapter has them."""
    adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
    features = [f for f in ("subgroup", "shader-f16") if f in adapter.features]
    return adapter.request_device_sync(required_features=features)


def has_subgroups() -> bool:
    return "subgroup" in device().features


def has_f16() -> bool:
    return "shader-f16" in device().features


@lru_cache(maxsize=256)
def _pipeline(code: str, entry: str, access: tuple[str, ...]) -> tuple[Any, Any]:
    gpu = device()
    # wgpu-native knows the operations without the directive, which it does not know yet.
    module = gpu.create_shader_module(code=code.replace("enable subgroups;\n", ""))
    kinds = {"read": "read-only-storage", "read_write": "storage"}
    layout = gpu.create_bind_group_layout(
        entries=[
            {"binding": i, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kinds[a]}}
            for i, a in enumerate(access)
        ]
    )
    pipeline = gpu.create_compute_pipeline(
        layout=gpu.create_pipeline_layout(bind_group_layouts=[layout]),
        compute={"module": module, "entry_point": entry},
    )
    return pipeline, layout


def _words(nbytes: int) -> int:
    return -(-nbytes // 4) * 4


def run_document(document: KernelDocument, arguments: Sequence[bytes | int]) -> list[bytes]:
    """What every argument holds afterwards; a number is that many bytes of rubbish at first.

    Raises
    ------
    AssertionError
        When something around a buffer was written.
    """
    gpu = device()
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    buffers: dict[str, tuple[Any, int]] = {}

    def make(name: str, blob: bytes) -> None:
        size = max(_words(len(blob)), 4)
        edge = bytes([_RED]) * _GUARD
        whole = edge + blob + bytes([_RED]) * (size - len(blob)) + edge
        buffers[name] = gpu.create_buffer_with_data(data=whole, usage=usage), size

    for i, argument in enumerate(arguments):
        blob = bytes([0xCD]) * argument if isinstance(argument, int) else argument
        make(f"a{i}", blob)
    for i, nbytes in enumerate(document.scratch):
        make(f"s{i}", bytes([0xCD]) * nbytes)
    encoder = gpu.create_command_encoder()
    compute = encoder.begin_compute_pass()
    for dispatch in document.dispatches:
        pipeline, layout = _pipeline(dispatch.code, dispatch.entry, dispatch.access)
        entries = [
            {"binding": i, "resource": {"buffer": buffers[name][0], "offset": _GUARD,
                                        "size": buffers[name][1]}}
            for i, name in enumerate(dispatch.bindings)
        ]  # fmt: skip
        compute.set_pipeline(pipeline)
        compute.set_bind_group(0, gpu.create_bind_group(layout=layout, entries=entries))
        compute.dispatch_workgroups(*dispatch.workgroups)
    compute.end()
    gpu.queue.submit([encoder.finish()])
    results = []
    for i, argument in enumerate(arguments):
        buffer, size = buffers[f"a{i}"]
        got = bytes(gpu.queue.read_buffer(buffer))
        edges = got[:_GUARD] + got[_GUARD + size :]
        assert set(edges) == {_RED}, f"argument {i} was written outside"
        nbytes = argument if isinstance(argument, int) else len(argument)
        results.append(got[_GUARD : _GUARD + nbytes])
    return results


def run_program(
    program: Program, data: bytes, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """All outputs of a compiled program."""
    arguments: list[bytes | int] = []
    for b in program.buffers:
        if b.role == "input":
            arguments.append(np.ascontiguousarray(inputs[b.name], NUMPY[b.dtype]).tobytes())
        else:
            arguments.append(int(np.prod(b.shape)) * np.dtype(NUMPY[b.dtype]).itemsize)
    after = run_document(KernelDocument.from_bytes(data), arguments)
    results = {}
    for b, before, got in zip(program.buffers, arguments, after, strict=True):
        if b.role == "input":
            assert got == before, f"{b.name} is an input and was written"
        elif b.role == "output":
            results[b.name] = np.frombuffer(got, NUMPY[b.dtype]).reshape(b.shape)
    return results


def check_document(program: Program, document: KernelDocument) -> None:
    """Every float32 output within its bound; inputs and what lies around all buffers untouched."""
    fixture = make_fixture(program.name, program)
    arguments = [arg.nbytes if arg.data is None else arg.data for arg in fixture.args]
    after = run_document(document, arguments)
    for arg, before, got in zip(fixture.args, arguments, after, strict=True):
        assert arg.role != "input" or got == before
    outputs = [got for arg, got in zip(fixture.args, after, strict=True) if arg.role == "output"]
    for got, expected, bound in zip(outputs, fixture.expected, fixture.bound, strict=True):
        values = np.frombuffer(got, np.float32)
        assert np.all(np.abs(values - expected.astype(np.float64)) <= bound)
