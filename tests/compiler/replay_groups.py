"""The groups of recorded kernels: one file each below ``tests/replay``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import replay_models
import replay_programs as programs
from replay_programs import Recorded, all_kernels, compiled, spelt
from wgsl_programs import PROGRAMS

from nnjit_studio.compiler.microbench import kernels as microbench
from nnjit_studio.compiler.microbench.variants import common_matmul, variants
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, compile_program
from nnjit_studio.compiler.programs.attention import attention
from nnjit_studio.compiler.wasm.peak import peak_kernel
from nnjit_studio.compiler.wgsl.core.document import Dispatch, KernelDocument
from nnjit_studio.compiler.wgsl.core.peak import copy_document, peak_document
from nnjit_studio.compiler.wgsl.core.row_source import Plain
from nnjit_studio.compiler.wgsl.templates.block_matrix import DECODINGS, F16, BlockMatrix
from nnjit_studio.compiler.wgsl.templates.gemv_blocks import Stored, gemv_blocks
from nnjit_studio.compiler.wgsl.templates.row_of_integers import row_of_integers
from nnjit_studio.compiler.wgsl.templates.subgroup_matrix import matrix_product, matrix_space
from nnjit_studio.records import GPU_TIERS, TIERS
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.records.gpu_candidate import GpuCandidate


def by_hand() -> Recorded:
    """Tiles that no space has: blocked reductions, both orders, B as it is stored."""
    chosen = {
        "4x8": Candidate(8, 4, 4, 32, 16, 4096, pack=False),
        "6x8": Candidate(8, 6, 4, 32, 24, 64, "mn", pack=False),
    }
    found = spelt(
        "matmul:384x768x768:f32",
        "matmul:1x64x129:f32+bias",
        "matmul:17x33x21:f32+bias+gelu",
        "batch_matmul:3x24x40x8:f32",
    )
    for (name, program), (short, candidate), tier in product(found.items(), chosen.items(), TIERS):
        yield f"{name} | {short} | {tier}", compiled(program, candidate, tier)


def attention_by_hand() -> Recorded:
    """Keys in parts, scalars, and keys that lie one behind the other."""
    wide = attention(3, 37, 50, 32, mask="all", guarded=True)
    row = attention(2, 1, 40, 32, transposed=True)
    for name, program, candidate in (
        ("tiles in parts", wide, GpuCandidate(8, 2, 1, 32, 8, 1, split=3, vec=1)),
        ("tiles of 8 rows", wide, GpuCandidate(4, 8, 1, 16, 16, 1)),
        ("a row in parts", row, GpuCandidate(4, 1, 1, 32, 1, 1, split=2)),
        ("a row", row, GpuCandidate(2, 1, 1, 16, 1, 1)),
    ):
        yield name, compiled(program, candidate, GPU_TIERS[0])


def without_passes() -> Recorded:
    """A tiled product and a convolution, each without one of the optional passes."""
    found = spelt("matmul:17x33x21:f32+bias+gelu", "conv2d:1x16x14x14x32x3x3x1x1x1x1:f32+bias")
    for (name, program), left_out in product(found.items(), OPTIONAL_PASSES):
        kept = [p for p in OPTIONAL_PASSES if p != left_out]
        yield f"{name} | no {left_out}", compile_program(program, None, TIERS[1], kept).data


def device_experiments() -> Recorded:
    """The kernels that measure a device."""
    for tier in TIERS:
        for wide in (False, True):
            yield f"peak{' wide' * wide} | {tier}", peak_kernel(tier, wide)[0]
        yield f"spill 12 | {tier}", microbench.spill_kernel(12, tier)[0]
    yield "chase", microbench.chase_kernel()
    yield "read", microbench.read_kernel()
    yield "copy 4096", microbench.copy_kernel(4096)
    for v in variants(common_matmul(48), TIERS):
        yield f"primitive {v.primitive} {v.setting}".strip(), v.artifact.data
    yield "GPU peak", peak_document()[0].to_bytes()
    yield "GPU copy", copy_document(1 << 20)[0].to_bytes()


def wgsl_forms() -> Recorded:
    """The schedule of any program, in every form that it treats in a way of its own."""
    for (name, program), tier in product(PROGRAMS.items(), GPU_TIERS):
        yield f"{name} | {tier}", compiled(program, None, tier)


def subgroup_matrices() -> Recorded:
    """The lab's products."""
    for batch, m, k, n in ((1, 384, 768, 768), (2, 64, 64, 128)):
        space = matrix_space(m, k, n)
        for tiles in (space[0], space[len(space) // 2], space[-1]):
            data = matrix_product(batch, m, k, n, tiles).to_bytes()
            yield f"{batch}x{m}x{k}x{n} | {tiles}", data


def gemv_blocks_forms() -> Recorded:
    """Every decoding, f16 among them, of one row and of three, with subgroups and without;
    one row of integers."""
    for decoding, rows, subgroups in product((*DECODINGS, F16), (1, 3), (False, True)):
        for half in (False, True):
            stored = BlockMatrix(512, 64, zeros="zeros" if half else "", half_scales=half)
            candidate = GpuCandidate(4, rows, 2, 32, rows, 128)
            ends = Plain("source", 512, rows), Stored("result", 64, rows)
            made = gemv_blocks(stored, candidate, *ends, rows, subgroups, decoding)
            words = f"{decoding} rows {rows}{' subgroups' * subgroups}{' half scales' * half}"
            yield words, _document(made).to_bytes()
    for half, together, eights in ((False, 4, 1), (True, 4, 1), (False, 8, 1), (True, 8, 2)):
        stored = BlockMatrix(672, 64, zeros="zeros" if half else "", half_scales=half)
        candidate = GpuCandidate(4, 1, together, 32, eights, 128, vec=1)
        made = row_of_integers(stored, candidate, Plain("source", 672), Stored("result", 64))
        yield f"integers, {together} words{' half scales' * half}", _document(made).to_bytes()


def _document(dispatch: Dispatch) -> KernelDocument:
    return KernelDocument((dispatch,))


def _templates() -> dict[str, Callable[[], Recorded]]:
    """Both backends of what both have a template or a schedule for."""
    sources = {
        "matmul": programs.products,
        "matmul_rows": programs.rows,
        "batch_matmul": programs.batches,
        "matmul_dot": programs.dots,
        "conv2d": programs.convolutions,
        "depthwise": programs.depthwise,
        "int8": programs.bytes_times_bytes,
        "4bit": programs.four_bits,
        "8bit": programs.eight_bits,
        "winograd": programs.winograd,
        "attention": programs.attentions,
        "softmax": programs.softmaxes,
        "scans": programs.scans,
        "half_weights": programs.half_weights,
        "rounded_attention": programs.rounded_attentions,
        "tables_of_bytes": programs.tables_of_bytes,
    }
    return {
        f"{backend}_{name}": lambda make=make, tiers=tiers: all_kernels(make(), tiers)
        for name, make in sources.items()
        for backend, tiers in (("wasm", TIERS), ("wgsl", GPU_TIERS))
    }


GROUPS: dict[str, Callable[[], Recorded]] = {
    **_templates(),
    "wasm_by_hand": by_hand,
    "wgsl_attention_by_hand": attention_by_hand,
    "wasm_without_passes": without_passes,
    "device_experiments": device_experiments,
    "wgsl_forms": wgsl_forms,
    "wgsl_subgroup_matrix": subgroup_matrices,
    "wgsl_gemv_4bit": gemv_blocks_forms,
    "generation": replay_models.generation,
    "importer_forms": replay_models.importer_forms,
    **{
        f"{name}_{part}": lambda make=make, part=part: make(part)
        for name, make in (
            ("models", replay_models.models),
            ("operators", replay_models.operators),
        )
        for part in range(replay_models.PARTS)
    },
}
OF_MODELS, OF_OPERATORS = (
    [f"{name}_{part}" for part in range(replay_models.PARTS)] for name in ("models", "operators")
)
ELSEWHERE = (*OF_MODELS, *OF_OPERATORS)
"""Groups of what is imported to be run as well: the tests of that import it once for both."""
