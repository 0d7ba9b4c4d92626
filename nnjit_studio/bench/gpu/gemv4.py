"""``nnjit bench gemv4``: chains of 4-bit products of one row, compared with ``MatMulNBits``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import numpy as np

from nnjit_studio.bench.gpu.gemv4_chain import BLOCK, CHAIN_BYTES, DTYPES, Chain, chain_of, prepare
from nnjit_studio.bench.gpu.kernels import GpuPolicy
from nnjit_studio.bench.gpu.page import BenchPage, gpu_page
from nnjit_studio.bench.gpu.tables import adapter_text
from nnjit_studio.bench.options import BenchOptions, Note
from nnjit_studio.bench.report import Report, Table, spread_text
from nnjit_studio.bench.statistics import spread
from nnjit_studio.compiler.wgsl.core.document import PACKED, Dispatch
from nnjit_studio.compiler.wgsl.core.row_source import Plain
from nnjit_studio.compiler.wgsl.templates.block_matrix import DECODINGS, F16, REQUIRES, BlockMatrix
from nnjit_studio.compiler.wgsl.templates.gemv_blocks import Stored, gemv_blocks, threads_of
from nnjit_studio.compiler.wgsl.templates.row_of_integers import row_of_integers
from nnjit_studio.errors import CompileError, UserError
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.matmul_blocks import rows_of_integers
from nnjit_studio.verdict.figures import relative_error

INTEGERS = "integers"
"""Nothing is decoded: the row becomes integers."""
POLICY = GpuPolicy(rounds=7, sample_ms=10.0, readbacks=0)


@dataclass(frozen=True)
class Setting:
    """What a product of one row can be made with."""

    candidate: GpuCandidate
    decoding: str
    subgroups: bool

    @property
    def requires(self) -> tuple[str, ...]:
        """Features of WebGPU, and with the prefix ``wgsl:`` of the language."""
        decoding = PACKED if self.decoding == INTEGERS else REQUIRES.get(self.decoding)
        return ("subgroups",) * self.subgroups + ((decoding,) if decoding else ())

    def __str__(self) -> str:
        return f"{self.candidate},{self.decoding}{',subgroups' * self.subgroups}"


def settings(k: int, subgroups: bool, f16: bool) -> Iterator[Setting]:
    """Those that are worth a measurement: columns, threads, words in flight, decoding.

    With ``f16`` those that multiply in f16 are there too.
    """
    for columns, threads, unroll in product((16, 32, 64), (128, 256, 512), (2, 4, 8)):
        depth = 8 * threads // (columns // 4)
        if depth * unroll > k + depth:
            continue
        central = columns < 64 and unroll == 4
        for decoding in (*(DECODINGS if central else DECODINGS[1:2]), *(F16,) * f16):
            yield Setting(GpuCandidate(4, 1, unroll, columns, 1, depth), decoding, subgroups)
    if subgroups:
        yield from (Setting(c, INTEGERS, True) for c in rows_of_integers(k))


def variants(k: int, n: int, dtype: str, subgroups: bool) -> list[dict[str, Any]]:
    """Our kernels for one size in every setting that fits it, for the page to choose from."""
    found = []
    f16 = dtype == "f16"
    matrix = BlockMatrix(k, n, block=BLOCK, half_scales=f16)
    modes = (False, True) if subgroups else (False,)
    for setting in (s for mode in modes for s in settings(k, mode, f16)):
        try:
            dispatch = _dispatch(matrix, setting)
        except CompileError:
            continue
        found.append(
            {
                "setting": str(setting),
                "threads": threads_of(setting.candidate),
                "requires": setting.requires,
                "dispatch": asdict(dispatch),
            }
        )
    return found


def _dispatch(matrix: BlockMatrix, setting: Setting) -> Dispatch:
    c, source, end = setting.candidate, Plain("x", matrix.k), Stored("y", matrix.n)
    if setting.decoding == INTEGERS:
        return row_of_integers(matrix, c, source, end)
    how = setting.decoding
    return gemv_blocks(matrix, c, source, end, subgroups=setting.subgroups, decoding=how)


def compare(
    sizes: Sequence[tuple[int, int]],
    options: BenchOptions,
    note: Note,
    chain_bytes: int = CHAIN_BYTES,
    policy: GpuPolicy = POLICY,
) -> dict[str, Any]:
    """Measure both on each chain in one page; f16 where the adapter has it.

    Raises
    ------
    UserError, TargetError, PageError
    """
    with gpu_page("gemv4", options, note) as page:
        dtypes = ("f32", "f16") if "shader-f16" in page.profile.features else ("f32",)
        chains: list[Chain] = []
        jobs: list[dict[str, Any]] = []
        for size, dtype in ((size, dtype) for size in sizes for dtype in dtypes):
            place = options.folder / str(len(chains))
            chain, models = prepare(chain_of(size, chain_bytes), dtype, place)
            chains.append(chain)
            peers = models if "ort" in options.peers else []
            jobs.append({"folder": place.name, **_job(chain, page), "peers": peers})
        rows = []
        for message in page.rows({"policy": asdict(policy), "chains": jobs}):
            index = message["index"]
            uploads = {
                name: tuple(page.upload(f"{index}-{name}-{which}") for which in ("first", "last"))
                for name in message["timed"]
            }
            found = chain_rows(chains[index], message, uploads)
            rows += found
            note("\n".join(map(row_text, found)))
        return {**page.document(), "block": BLOCK, "rows": rows}


def _job(chain: Chain, page: BenchPage) -> dict[str, Any]:
    """Our kernels of a chain, for ``resources/bench/gpu/gemv4.js``."""
    subgroups = "subgroups" in page.profile.features
    made = {
        f"{k}x{n}": variants(k, n, chain.dtype, subgroups) for k, n in dict.fromkeys(chain.matrices)
    }
    if not all(made.values()):
        raise UserError(
            f"No setting of our 4-bit kernels fits {chain.name}.", "Give --sizes of at least 64x64."
        )
    return {"type": chain.dtype, "matrices": chain.matrices, "variants": made}


def chain_rows(
    chain: Chain, message: Mapping[str, Any], uploads: Mapping[str, tuple[bytes, ...]]
) -> list[dict[str, Any]]:
    """One row for each contender; ``ratio`` is our rate over its, as each submits by itself."""
    count = len(chain.matrices)
    rows = []
    for name, styles in message["timed"].items():
        kind = np.float32 if name == "ours" else DTYPES[chain.dtype][0]
        errors = [
            relative_error(np.frombuffer(data, kind), wanted)
            for data, wanted in zip(uploads[name], (chain.first, chain.last), strict=True)
        ]
        row: dict[str, Any] = {
            "chain": chain.name,
            "name": name,
            "products": count,
            "nbytes": chain.nbytes,
            "max_rel_err": errors[0],
            "chain_rel_err": errors[1],
            **{style: _of_a_product(chain, timed) for style, timed in styles.items()},
        }
        rows.append(row)
    ours = next(r for r in rows if r["name"] == "ours")
    for row in rows:
        if row is not ours:
            row["ratio"] = ours["submit"]["gb_s"] / row["submit"]["gb_s"]
            row["ratio_own_way"] = ours["pass"]["gb_s"] / row["submit"]["gb_s"]
    ours["kernels"] = message["kernels"]
    ours["failed"] = message["failed"]
    return rows


def _of_a_product(chain: Chain, timed: Mapping[str, Any]) -> dict[str, Any]:
    count = len(chain.matrices)
    gpu_us = spread([1e3 * ms / count for ms in timed["gpu_ms"]])
    return {
        "gpu_us": gpu_us,
        "wall_us": spread([1e3 * ms / count for ms in timed["wall_ms"]]),
        "gb_s": chain.nbytes / count / gpu_us["median"] / 1e3,
        **{name: timed[name] / count for name in ("passes", "dispatches", "submits")},
    }


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    return f"{row['chain']}: {row['name']} {row['submit']['gb_s']:.0f} GB/s"


def gemv4_report(result: Mapping[str, Any]) -> Report:
    head = ["chain", "who", "passes each", "GPU us (min; IQR)", "GB/s", "wall us"]
    head += ["ours / its GB/s", "error", "error at the end"]
    rows = [
        [
            row["chain"],
            row["name"],
            f"{row[style]['passes']:.2f}",
            spread_text(row[style]["gpu_us"], 2),
            f"{row[style]['gb_s']:.0f}",
            f"{row[style]['wall_us']['median']:.2f}",
            "-" if row["name"] == "ours" else f"{row['ratio']:.2f} ({row['ratio_own_way']:.2f})",
            f"{row['max_rel_err']:.1e}",
            f"{row['chain_rel_err']:.1e}",
        ]
        for row in result["rows"]
        for style in ("submit", "pass")
        if style in row
    ]
    about = (
        f"Blocks of {result['block']}. A chain's weights are larger than a cache; GB/s count words "
        "and scales. `ort-0` and `ort-4` are accuracy levels of MatMulNBits. The ratio is ours "
        "with one product in each pass, as the peer makes them; in brackets ours with the chain "
        "in one pass. Errors are against float64, of the first product and of the chain's last."
    )
    title = "4-bit products of one row, compared with MatMulNBits"
    return Report(result, title, about, (adapter_text(result), Table(head, rows), _chosen(result)))


def _chosen(result: Mapping[str, Any]) -> str:
    """The kernels that ours chose, and the peers that failed."""
    return "\n".join(
        f"{r['chain']}: {r['products']} products, {r['nbytes'] / 1e6:.0f} MB; kernels "
        + "; ".join(
            f"{k['size']} `{k['setting']}`, of {len(k['tried'])} tried" for k in r["kernels"]
        )
        + "".join(f"; {name} failed: {why}" for name, why in r["failed"].items())
        + "."
        for r in result["rows"]
        if r["name"] == "ours"
    )
