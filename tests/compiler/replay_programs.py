"""The programs whose kernels are recorded, and the settings that each of them is recorded with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from byte_products import byte_product
from grouped_models import Sizes, grouped
from matmul_programs import dense, in_bytes, in_halves, with_rounded_weights
from small_programs import matmul_bias, softmax
from test_quantised import block_model
from test_split_columns import four_bit_attention

from nnjit_studio.bench.tuner.row_programs import layernorm_program, softmax_program
from nnjit_studio.compiler.importer import import_model
from nnjit_studio.compiler.importer.generation import import_generation
from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.compiler.pipeline.wasm import compile_program
from nnjit_studio.compiler.pipeline.wgsl import compile_wgsl
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.compiler.programs.conv2d import conv2d_program
from nnjit_studio.compiler.recognize.conv2d import recognize_conv2d
from nnjit_studio.compiler.recognize.subject import packed_weight
from nnjit_studio.compiler.recognize.winograd import (
    input_program,
    output_program,
    product_program,
    winograd_of,
)
from nnjit_studio.compiler.recognize.workload import workload_for
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.compiler.templates import prepared, subject_of
from nnjit_studio.compiler.tvm_adapter.scans import cumsum, top_k
from nnjit_studio.model import GenerationRequest
from nnjit_studio.records import GPU_TIERS, TIERS, DeviceProfile
from nnjit_studio.records.gpu_candidate import AnyCandidate
from nnjit_studio.records.gpu_profile import GpuProfile
from nnjit_studio.space import build_lite_space

Recorded = Iterator[tuple[str, bytes]]
"""Names, each once in its group, with the bytes that are recorded as a digest."""

_GPU = GpuProfile(
    cores=132,
    registers_per_core=65536,
    warp=32,
    registers_per_thread=255,
    threads_per_core=2048,
    shared_bytes_per_core=228 << 10,
    limits={"maxComputeWorkgroupStorageSize": 48 << 10},
)
_WASM_DEVICE = DeviceProfile(
    "replay", "replay", vector_registers=16, l1_bytes=32 << 10, l2_bytes=512 << 10
)
_GPU_DEVICE = DeviceProfile("replay", "replay", gpu=_GPU)


def kernels(name: str, program: Program, tiers: tuple[str, ...]) -> Recorded:
    """A program by default and with the first, the middle and the last candidate of its space."""
    for candidate in (None, *candidates(program, tiers)):
        for tier in tiers:
            settings = "default" if candidate is None else str(candidate)
            yield f"{name} | {settings} | {tier}", compiled(program, candidate, tier)


def candidates(program: Program, tiers: tuple[str, ...]) -> list[AnyCandidate]:
    """Three of the lite space of a device that is always the same; none where there is no space."""
    subject = subject_of(program)
    workload = workload_for(program, subject)
    if not workload.tunable:
        return []
    device = _GPU_DEVICE if tiers == GPU_TIERS else _WASM_DEVICE
    entries = build_lite_space(workload, device, packed_weight(subject) is not None).entries
    places = sorted({0, len(entries) // 2, len(entries) - 1})
    return [entries[place].candidate for place in places]


def compiled(program: Program, candidate: AnyCandidate | None, tier: str) -> bytes:
    if tier in GPU_TIERS:
        return compile_wgsl(program, candidate, tier).data
    return compile_program(program, candidate, tier).data  # type: ignore[arg-type]


def all_kernels(programs: dict[str, Program], tiers: tuple[str, ...] = TIERS) -> Recorded:
    for name, program in programs.items():
        yield from kernels(name, program, tiers)


def spelt(*specs: str) -> dict[str, Program]:
    """Programs of one-line spellings, by these."""
    return {spec: program_for(spec) for spec in specs}


def products() -> dict[str, Program]:
    """Matmuls in tiles: with and without an epilogue, of a size that no tile divides."""
    return {
        **spelt(
            "matmul:384x768x768:f32",
            "matmul:17x33x21:f32+bias+gelu",
            "matmul:30x40x52:f32+bias+residual",
            "matmul_var:12x40x36:f32+relu",
        ),
        "heads 12x24x16": dense(12, 24, 16, "heads"),
        "matmul_bias 9x20x7": matmul_bias(9, 20, 7),
    }


def rows() -> dict[str, Program]:
    return spelt("matmul:1x64x129:f32+bias", "matmul:3x256x96:f32", "matmul_var:1x128x64:f32")


def batches() -> dict[str, Program]:
    return spelt("batch_matmul:3x24x40x8:f32", "batch_matmul:2x33x16x64:f32+residual")


def dots() -> dict[str, Program]:
    return spelt(
        "matmul_dot:11x71x13:f32+bias", "matmul_dot:1x64x19:f32", "batch_matmul_dot:3x35x64x35:f32"
    )


def convolutions() -> dict[str, Program]:
    return spelt(
        "conv2d:1x3x19x17x8x3x3x2x1x1x1:f32+bias+relu",
        "conv2d:1x16x14x14x32x3x3x1x1x1x1:f32+bias+residual",
        "conv2d:1x8x13x13x16x1x1x2x0x1x1:f32+bias",
        "conv2d:1x8x7x7x12x3x3x1x1x1x2:f32",
    )


def depthwise() -> dict[str, Program]:
    return spelt(
        "conv2d:1x6x14x14x6x3x3x1x1x1x6:f32+bias+relu",
        "conv2d:2x5x15x13x5x3x3x2x1x1x5:f32+bias",
        "conv2d:1x4x9x9x4x5x5x1x2x1x4:f32",
    )


def bytes_times_bytes() -> dict[str, Program]:
    return {
        "u8 21x176x36 scaled": byte_product(21, 176, 36, "u8", dequantised=True),
        "i8 17x64x40": byte_product(17, 64, 40, "i8"),
        "u8 1x36x70": byte_product(1, 36, 70, "u8"),
    }


@cache
def four_bits() -> dict[str, Program]:
    """As MatMulNBits is imported: one row, some, many; with zero points and without. Of a token
    of a decoder, those that make their row, with scales in f16."""
    found = {}
    for m, k, n, block, zeros in (
        (1, 256, 72, 32, True),
        (6, 128, 24, 16, False),
        (37, 128, 36, 64, True),
    ):
        with tempfile.TemporaryDirectory() as folder:
            model, weights = Path(folder, "m.onnx"), Path(folder, "w.bin")
            block_model(model, [m, k], n, block, zeros)
            (program,) = import_model(model, weights).programs.values()
        found[f"{m}x{k}x{n} block {block}{' zeros' * zeros}"] = program
    with tempfile.TemporaryDirectory() as folder:
        model, weights = Path(folder, "m.onnx"), Path(folder, "w.bin")
        sizes = Sizes(heads=2, shared=2, depth=64, hidden=512, layers=1, vocabulary=256)
        grouped(model, 4, half=True, sizes=sizes)
        token = import_generation(model, weights, GenerationRequest(capacity=32, rows=0)).decode
    for workload in token.workloads:
        if {"norm", "elementwise"} & {*workload.epilogue} and workload.dims[2] < 256:
            found[workload.name] = token.programs[workload.key]
    return found


@cache
def eight_bits() -> dict[str, Program]:
    """As :func:`four_bits`, and a product in 4 bits that writes its heads apart."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        model, weights = Path(folder, "m.onnx"), Path(folder, "w.bin")
        for m, k, n, block, zeros in (
            (1, 256, 72, 32, True),
            (6, 128, 24, 16, False),
            (37, 128, 36, 64, True),
        ):
            block_model(model, [m, k], n, block, zeros, 8)
            (program,) = import_model(model, weights).programs.values()
            found[f"{m}x{k}x{n} block {block}{' zeros' * zeros}"] = program
        built = import_model(four_bit_attention(model, True), weights)
    (heads,) = (w for w in built.workloads if len(w.dims) == 4 and w.kind == "matmul_4bit")
    return found | {heads.name: built.programs[heads.key]}


def winograd() -> dict[str, Program]:
    """The three programs of a convolution in tiles, for both sizes of a tile."""
    found = {}
    for m, height, width, pad, tail in (
        (2, 14, 14, 1, ("bias", "residual", "relu")),
        (4, 22, 19, 0, ("bias", "hardswish")),
    ):
        conv = conv2d_program((1, 8, height, width, 16, 3, 3, 1, pad, 1, 1), tail)
        subject = recognize_conv2d(conv)
        assert subject is not None
        sizes, name = winograd_of(subject, m), f"F({m}) {height}x{width} "
        found[name + "input"] = input_program(sizes)
        found[name + "product"] = product_program(sizes)
        found[name + "output"] = output_program(sizes, conv, subject.stores)
    return found


def attentions() -> dict[str, Program]:
    found = {
        "attention 2x13x21x32 joined": attention(2, 13, 21, 32, mask="all", joined=True),
        "attention 3x37x50x64 guarded": attention(3, 37, 50, 64, mask="keys", guarded=True),
        "attention 2x20x20x80 transposed": attention(2, 20, 20, 80, transposed=True),
        "attention 3x1x75x64": attention(3, 1, 75, 64, mask="keys"),
        "attention 2x1x40x32 transposed": attention(2, 1, 40, 32, transposed=True),
    }
    return {name: prepared(program) for name, program in found.items()}


def softmaxes() -> dict[str, Program]:
    return {
        "softmax 12x128": softmax(12, 128),
        "softmax 3x77": softmax(3, 77),
        "softmax 16x8 in rows": softmax_program(16, 8),
        "layer norm 5x384 in rows": layernorm_program(5, 384),
    }


def scans() -> dict[str, Program]:
    return {
        "cumsum 5x9": cumsum((5, 9), "f32", 1, False),
        "cumsum 4x6x3 exclusive i64": cumsum((4, 6, 3), "i64", 1, True),
        "topk 4x33": top_k((4, 33), "f32", 1, 5, True, "i64"),
        "topk 7x12 smallest": top_k((7, 12), "i32", 0, 3, False, "i32"),
    }


def rounded_attentions() -> dict[str, Program]:
    found = {
        "attention 2x13x21x32 joined": attention(2, 13, 21, 32, mask="all", joined=True),
        "attention 2x20x50x64 transposed": attention(2, 20, 50, 64, transposed=True),
    }
    return {n: prepared(with_rounded_weights(program, 254.0)) for n, program in found.items()}


def tables_of_bytes() -> dict[str, Program]:
    """Products of floats and rows of bytes."""
    found: dict[str, Program] = {}
    for spec in ("matmul_dot:13x64x37:f32", "matmul_dot:1x64x37:f32+bias"):
        for dtype, zero in (("i8", 0.0), ("u8", 131.0)):
            program = program_for(spec)
            a, table, *rest = program.buffers
            program = replace(program, buffers=(a, replace(table, constant=True), *rest))
            found[f"{dtype} {spec}"] = prepared(in_bytes(program, dtype, zero))
    return found


def half_weights() -> dict[str, Program]:
    """Weights in f16, in panels and as they are stored."""
    return {f"f16 {spec}": in_halves(program) for spec, program in (products() | rows()).items()}
