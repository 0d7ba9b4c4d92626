"""Donors in the target engine: which functions they can replace, and which are faster there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine
from nnjit_studio.foreign_wasm.turbo.gate.gain import Gain, gain_of
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings, job_of
from nnjit_studio.foreign_wasm.turbo.kernels.callers import refused
from nnjit_studio.foreign_wasm.turbo.kernels.find import find
from nnjit_studio.foreign_wasm.turbo.kernels.guard import Donor, replace
from nnjit_studio.foreign_wasm.turbo.kernels.module import donor_module
from nnjit_studio.foreign_wasm.turbo.kernels.sgemm import Mode, Tile
from nnjit_studio.wasm_file import edit
from nnjit_studio.wasm_file.module import Module, read

TILES = (
    Tile(6, 8), Tile(5, 8), Tile(4, 8), Tile(2, 16), Tile(8, 4), Tile(12, 4),
    Tile(6, 8, 2), Tile(5, 8, 8), Tile(4, 8, 8), Tile(4, 8, 1),
)  # fmt: skip
"""Tiles that fill the 16 vector registers of x64, by the rules of the lite space; one without
unroll for JavaScriptCore, where a load with an offset is an instruction more."""
REFERENCE = Tile(4, 8)
ORIGINALS = "originals.wasm"
CASES = 500
"""Of a proof, for each function."""
SCRATCH_PAGES = 320
"""Of the memory that donors are proven and rated on: 20 MiB."""
_BLOCKS = (("add", 256, 128, 1536, 384, 108), ("add", 256, 128, 384, 384, 72),
           ("add", 256, 128, 384, 1536, 72), ("add", 128, 128, 384, 384, 72),
           ("add", 128, 128, 384, 1536, 72), ("zero", 32, 128, 32, 128, 72),
           ("zero", 128, 32, 128, 32, 72))  # fmt: skip
_ROWS = 128
"""What MiniLM asks for (kernel, K, N, lda, ldc, how many blocks): what is timed."""


@dataclass(frozen=True)
class Judged:
    """A donor for a function.

    ``least_ms`` is its shortest sample, which other programs cannot make shorter; ``worst`` its
    largest difference from the original as a share of the bound.
    """

    index: int
    donor: Donor
    gain: Gain
    least_ms: float
    cases: int
    identical: int
    worst: float
    least_gain: float

    @property
    def passed(self) -> bool:
        """Whether it is right, and faster."""
        right = self.worst <= 1 if self.donor.fma else self.identical == self.cases
        return right and self.gain.median >= self.least_gain and self.gain.low > 1

    def to_json(self) -> dict[str, Any]:
        tile = self.donor.tile
        return {
            "index": self.index,
            "kernel": f"MLAS SGEMM {self.donor.mode.value}",
            "tile": f"{tile.rows}x{tile.columns}, unroll {tile.unroll}",
            "bit_identical": not self.donor.fma,
            "gain": self.gain.to_json(),
            "least_ms": round(self.least_ms, 4),
            "cases": self.cases,
            "equal": self.identical,
            "worst_share_of_bound": self.worst,
            "passed": self.passed,
        }


@dataclass(frozen=True)
class Kernels:
    """Functions of a module that may be kernels, and why others that look like one may not."""

    functions: Sequence[int]
    left_alone: Mapping[int, str]
    shared: bool
    """Whether the module's memory is."""


def kernels_of(module: Module, folder: Path) -> Kernels:
    """Find them, and write them to the folder as they are."""
    found = find(module)
    left_alone = refused(module, found)
    functions = [index for index in found if index not in left_alone]
    if functions:
        (folder / ORIGINALS).write_bytes(edit.lift(module, functions, SCRATCH_PAGES))
    return Kernels(functions, left_alone, any(memory.shared for memory in module.memories[:1]))


def judge(
    kernels: Kernels, engine: Engine, folder: Path, settings: Settings, fma: bool
) -> list[Judged]:
    """Prove and time donors for functions, and judge those that do what a kernel does.

    Raises
    ------
    PageError, TargetError
    """
    functions, shared = kernels.functions, kernels.shared
    if not functions:
        return []
    twins = (False, True) if fma else (False,)
    donors = {f"donor{n}-{tile.rows}x{tile.columns}{'-fused' * twin}.wasm": (tile, twin)
              for twin in twins for n, tile in enumerate(TILES)}  # fmt: skip
    for name, (tile, twin) in donors.items():
        (folder / name).write_bytes(donor_module(tile, twin, shared))
    (folder / "reference.wasm").write_bytes(donor_module(REFERENCE, False, shared))
    wanted = {
        "originals": ORIGINALS,
        "functions": [f"f{index}" for index in functions],
        "reference": "reference.wasm",
        "donors": list(donors),
        "cases": CASES,
        "blocks": [_block(*given) for given in _BLOCKS],
    }
    rows = list(engine.rows(job_of(settings, kernels=wanted), folder))
    told = next(row["kernels"] for row in rows if "kernels" in row)
    return list(_judged(told, functions, donors, settings.least_gain))


def best(judged: Sequence[Judged], fma: bool) -> dict[int, Donor]:
    """The fastest donor of each function that passed; without ``fma`` of the exact ones."""
    passed = [j for j in judged if j.passed and (fma or not j.donor.fma)]
    ranked = sorted(passed, key=lambda j: -j.least_ms)
    return {j.index: j.donor for j in ranked}


def with_donors(data: bytes, donors: Mapping[int, Donor]) -> bytes:
    """A module with these functions replaced; without any the same bytes."""
    return replace(read(data), donors) if donors else data


def _judged(
    told: Mapping[str, Any],
    functions: Sequence[int],
    donors: Mapping[str, tuple[Tile, bool]],
    least_gain: float,
) -> Iterator[Judged]:
    samples = told["samples_ms"]
    for index, kind in zip(functions, told["kinds"], strict=True):
        if not kind:
            continue
        for name, proof in told["proofs"].items():
            tile, fma = donors[name]
            gain = gain_of(samples["original"][kind], samples[name][kind])
            worst = float("inf") if proof["worst"] is None or proof["error"] else proof["worst"]
            counts = proof["cases"], proof["identical"], worst
            least_ms = min(samples[name][kind])
            donor = Donor(Mode(kind), tile, fma)
            yield Judged(index, donor, gain, least_ms, *counts, least_gain)


def _block(kernel: str, k: int, n: int, lda: int, ldc: int, count: int) -> dict[str, Any]:
    sizes = {"m": _ROWS, "k": k, "n": n, "lda": lda, "ldc": ldc}
    return {"kernel": kernel, **sizes, "calls": count, "flops": 2 * _ROWS * k * n * count}
