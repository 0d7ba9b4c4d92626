"""``nnjit bench gemv4``: chains of 4-bit products of one row beside ``MatMulNBits``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

from nnjit_studio.bench.gpu.kernels import GpuPolicy, write_keep_alive
from nnjit_studio.bench.gpu.page import gpu_page
from nnjit_studio.bench.gpu.tables import adapter_text
from nnjit_studio.bench.llm.decoder.plan import settings
from nnjit_studio.bench.peers.onnx_models import IR_VERSION, OPSET
from nnjit_studio.bench.statistics import relative_error, spread
from nnjit_studio.bench.tables import conditions, markdown_table, text_table
from nnjit_studio.compiler.wgsl.templates.gemv_4bit import Matrix4, gemv_4bit, threads_of
from nnjit_studio.compiler.wgsl.templates.gemv_operands import Plain, Stored
from nnjit_studio.errors import CompileError, UserError

BLOCK = 32
CHAIN_BYTES = 140_000_000
"""A chain's weights are at least so large, which is more than a GPU's cache holds."""
MOST_MATRICES = 64
ACCURACY_LEVELS = (0, 4)
"""Of ``MatMulNBits``; 4 rounds the activations to 8 bits where the type is f32."""
DTYPES: dict[str, tuple[type[np.floating[Any]], int]] = {
    "f32": (np.float32, TensorProto.FLOAT),
    "f16": (np.float16, TensorProto.FLOAT16),
}
POLICY = GpuPolicy(rounds=7, sample_ms=10.0, readbacks=0)


@dataclass(frozen=True)
class Chain:
    """Products of one row, each with weights of its own.

    Attributes
    ----------
    dtype
        Of the scales; the peer's also of its activations. Ours have f32 activations always.
    matrices
        K and N of each.
    first, last
        Results of the first and of the last product in float64.
    """

    dtype: str
    matrices: tuple[tuple[int, int], ...]
    first: NDArray[np.float64]
    last: NDArray[np.float64]

    @property
    def name(self) -> str:
        k, n = self.matrices[0]
        back = "" if k == n else " and back"
        return f"{k}x{n}{back}, {self.dtype}"

    @property
    def nbytes(self) -> int:
        """Of words and scales: what the chain must read at least."""
        scale = np.dtype(DTYPES[self.dtype][0]).itemsize
        return sum(k * n // 2 + k // BLOCK * n * scale for k, n in self.matrices)


def parse_sizes(text: str) -> list[tuple[int, int]]:
    """A comma list such as ``4096x4096,4096x11008``.

    Raises
    ------
    UserError
        When one is no size, or does not divide into blocks of :data:`BLOCK`.
    """
    found = []
    for word in text.split(","):
        parts = word.split("x")
        if len(parts) != 2 or not all(p.isdigit() and int(p) for p in parts):
            raise UserError(f"{word!r} is no size of a matrix.", "Write it as 4096x11008.")
        k, n = map(int, parts)
        if k % BLOCK or n % BLOCK:
            raise UserError(
                f"{word}: both sizes must be multiples of {BLOCK}.", "Give such as 4096x11008."
            )
        found.append((k, n))
    return found


def chain_of(size: tuple[int, int], chain_bytes: int) -> tuple[tuple[int, int], ...]:
    """Square matrices, or pairs there and back, until their words are ``chain_bytes``.

    Small ones end at :data:`MOST_MATRICES`.
    """
    k, n = size
    unit = (size,) if k == n else (size, (n, k))
    wanted = -(-chain_bytes // (k * n // 2 * len(unit)))
    return unit * max(1, min(wanted, MOST_MATRICES // len(unit)))


def prepare(
    matrices: Sequence[tuple[int, int]], dtype: str, place: Path
) -> tuple[Chain, list[dict[str, str]]]:
    """Write seeded weights in both layouts and the peer's models; the chain and its peers.

    Scales keep the values near one along the chain: a uniform 4-bit value has the standard
    deviation 4.61. The first input is exact in f16, so that both types start alike.
    """
    place.mkdir()
    numpy_type, _ = DTYPES[dtype]
    rng = np.random.default_rng([4, *matrices[0], len(matrices)])
    x = rng.uniform(-1, 1, matrices[0][0]).astype(np.float16)
    for name, (kind, _) in DTYPES.items():
        (place / f"x.{name}").write_bytes(x.astype(kind).tobytes())
    value = x.astype(np.float64)
    first = None
    with (place / "peer.bin").open("wb") as peer:
        for i, (k, n) in enumerate(matrices):
            words = rng.integers(0, 1 << 32, (k // 8, n), np.uint32)
            spans = rng.uniform(0.5, 1.5, (k // BLOCK, n)) * (1.7 / (4.61 * np.sqrt(k)))
            scales = spans.astype(numpy_type)
            (place / f"words{i}").write_bytes(words.tobytes())
            (place / f"scales{i}.{dtype}").write_bytes(scales.tobytes())
            peer.write(np.ascontiguousarray(words.T).tobytes())
            peer.write(np.ascontiguousarray(scales.T).tobytes())
            value = product(value, words, scales)
            first = value if first is None else first
    assert first is not None
    models = []
    for level in ACCURACY_LEVELS:
        write_model(place / f"one{level}.onnx", matrices[:1], dtype, level)
        write_model(place / f"all{level}.onnx", matrices, dtype, level)
        models.append(
            {
                "name": f"ort-{level}",
                "one": f"{place.name}/one{level}.onnx",
                "chain": f"{place.name}/all{level}.onnx",
                "data": f"{place.name}/peer.bin",
            }
        )
    return Chain(dtype, tuple(matrices), first, value), models


def product(
    x: NDArray[np.float64], words: NDArray[np.uint32], scales: NDArray[Any]
) -> NDArray[np.float64]:
    """``x`` (K) by the stored matrix in float64: (q - 8) * scale, summed block by block."""
    k, n = 8 * words.shape[0], words.shape[1]
    total = np.zeros(n)
    shifts = 4 * np.arange(8, dtype=np.uint32).reshape(1, 8, 1)
    for block in range(k // BLOCK):
        stored = words[block * BLOCK // 8 : (block + 1) * BLOCK // 8, None, :]
        values = ((stored >> shifts) & np.uint32(15)).reshape(BLOCK, n).astype(np.float64) - 8
        total += x[block * BLOCK : (block + 1) * BLOCK] @ values * scales[block].astype(np.float64)
    return total


def write_model(
    path: Path, matrices: Sequence[tuple[int, int]], dtype: str, accuracy_level: int
) -> None:
    """A chain of ``MatMulNBits``, its weights outside in ``weights.bin``."""
    numpy_type, element = DTYPES[dtype]
    itemsize = np.dtype(numpy_type).itemsize
    initialisers, nodes, offset = [], [], 0
    for i, (k, n) in enumerate(matrices):
        parts = (
            (f"w{i}", TensorProto.UINT8, (n, k // BLOCK, BLOCK // 2), k * n // 2),
            (f"s{i}", element, (n * (k // BLOCK),), k // BLOCK * n * itemsize),
        )
        for name, kind, dims, nbytes in parts:
            tensor = TensorProto(name=name, data_type=kind, dims=dims)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "weights.bin"), ("offset", offset), ("length", nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            initialisers.append(tensor)
            offset += nbytes
        nodes.append(
            helper.make_node(
                "MatMulNBits",
                ["x" if i == 0 else f"h{i}", f"w{i}", f"s{i}"],
                ["y" if i == len(matrices) - 1 else f"h{i + 1}"],
                domain="com.microsoft",
                K=k,
                N=n,
                bits=4,
                block_size=BLOCK,
                accuracy_level=accuracy_level,
            )
        )
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", element, (1, matrices[0][0]))],
        [helper.make_tensor_value_info("y", element, (1, matrices[-1][1]))],
        initialisers,
    )
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    path.write_bytes(model.SerializeToString())


def variants(k: int, n: int, dtype: str, subgroups: bool) -> list[dict[str, Any]]:
    """Our kernels for one size in every setting that fits it, for the page to choose from."""
    found = []
    matrix = Matrix4(k, n, block=BLOCK, half_scales=dtype == "f16")
    modes = (False, True) if subgroups else (False,)
    f16 = dtype == "f16"
    for setting in (s for mode in modes for s in settings(k, n, mode, f16=f16)):
        try:
            dispatch = gemv_4bit(
                matrix,
                setting.candidate,
                Plain("x", k),
                Stored("y", n),
                subgroups=setting.subgroups,
                decoding=setting.decoding,
            )
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


def compare(
    sizes: Sequence[tuple[int, int]],
    folder: Path,
    target: str,
    peers: Sequence[str],
    node_modules: Path | None,
    no_sandbox: bool,
    published: bool,
    note: Callable[[str], None],
    chain_bytes: int = CHAIN_BYTES,
    policy: GpuPolicy = POLICY,
    gpu: str = "hardware",
) -> dict[str, Any]:
    """Measure both on each chain in one page; f16 where the adapter has it.

    Raises
    ------
    UserError, TargetError, PageError
    """
    write_keep_alive(folder / "keep_alive.onnx")
    page_name = "gpu/gemv4.html"
    with gpu_page(page_name, folder, target, node_modules, no_sandbox, published, gpu) as page:
        features = page.profile.features
        note(f"adapter: {page.profile.name}")
        chains: list[Chain] = []
        jobs: list[dict[str, Any]] = []
        for size in sizes:
            for dtype in ("f32", "f16") if "shader-f16" in features else ("f32",):
                place = folder / str(len(chains))
                matrices = chain_of(size, chain_bytes)
                chain, models = prepare(matrices, dtype, place)
                chains.append(chain)
                made = {
                    f"{k}x{n}": variants(k, n, dtype, "subgroups" in features)
                    for k, n in dict.fromkeys(matrices)
                }
                if not all(made.values()):
                    raise UserError(
                        f"No setting of our 4-bit kernels fits {chain.name}.",
                        "Give --sizes of at least 64x64.",
                    )
                jobs.append(
                    {
                        "folder": place.name,
                        "type": dtype,
                        "matrices": matrices,
                        "variants": made,
                        "peers": models if "ort" in peers else [],
                    }
                )
        page.give({"policy": asdict(policy), "chains": jobs})
        rows = []
        for message in page.rows():
            index = message["index"]
            uploads = {
                name: tuple(page.upload(f"{index}-{name}-{which}") for which in ("first", "last"))
                for name in message["timed"]
            }
            rows += chain_rows(chains[index], message, uploads)
            note("\n".join(row_text(row) for row in rows[-len(uploads) :]))
        found = page.conditions()
    return {**found, "block": BLOCK, "rows": rows}


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
        }
        for style, timed in styles.items():
            gpu_us = spread([1e3 * ms / count for ms in timed["gpu_ms"]])
            row[style] = {
                "gpu_us": gpu_us,
                "wall_us": spread([1e3 * ms / count for ms in timed["wall_ms"]]),
                "gb_s": chain.nbytes / count / gpu_us["median"] / 1e3,
                "passes": timed["passes"] / count,
                "dispatches": timed["dispatches"] / count,
                "submits": timed["submits"] / count,
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


def row_text(row: Mapping[str, Any]) -> str:
    """One line for a person."""
    return f"{row['chain']}: {row['name']} {row['submit']['gb_s']:.0f} GB/s"


def _table(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    head = [
        "chain",
        "who",
        "passes each",
        "GPU us (min; IQR)",
        "GB/s",
        "wall us",
        "ours / its GB/s",
    ]
    head += ["error", "error at the end"]
    rows = []
    for row in result["rows"]:
        for style in ("submit", "pass"):
            if style not in row:
                continue
            found, us = row[style], row[style]["gpu_us"]
            ratio = "-"
            if row["name"] != "ours":
                ratio = f"{row['ratio']:.2f} ({row['ratio_own_way']:.2f})"
            rows.append(
                [
                    row["chain"],
                    row["name"],
                    f"{found['passes']:.2f}",
                    f"{us['median']:.2f} ({us['min']:.2f}; {us['iqr']:.2f})",
                    f"{found['gb_s']:.0f}",
                    f"{found['wall_us']['median']:.2f}",
                    ratio,
                    f"{row['max_rel_err']:.1e}",
                    f"{row['chain_rel_err']:.1e}",
                ]
            )
    return head, rows


def _remarks(result: Mapping[str, Any]) -> str:
    ours = [r for r in result["rows"] if r["name"] == "ours"]
    lines = [
        f"{r['chain']}: {r['products']} products, {r['nbytes'] / 1e6:.0f} MB; kernels "
        + "; ".join(
            f"{k['size']} `{k['setting']}`, of {len(k['tried'])} tried" for k in r["kernels"]
        )
        + "".join(f"; {name} failed: {why}" for name, why in r["failed"].items())
        + "."
        for r in ours
    ]
    return "\n".join(lines)


def gemv4_text(result: Mapping[str, Any]) -> str:
    return "\n\n".join((adapter_text(result), text_table(*_table(result)), _remarks(result)))


def gemv4_markdown(result: Mapping[str, Any]) -> str:
    return (
        f"## {result['date'][:10]}: 4-bit products of one row beside MatMulNBits\n\n"
        f"{conditions(result)} {adapter_text(result)} Blocks of {result['block']}. A chain's "
        "weights are larger than a cache; GB/s count words and scales. `ort-0` and `ort-4` are "
        "accuracy levels of MatMulNBits. The ratio is ours with one product in each pass, as "
        "the peer makes them; in brackets ours with the chain in one pass. Errors are against "
        "float64, of the first product and of the chain's last.\n\n"
        f"{markdown_table(*_table(result))}\n\n{_remarks(result)}"
    )
