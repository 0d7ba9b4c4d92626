"""Numbers and sums around bytes are part of other calls in bundles for any size too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from test_open_form import node, rand, written

from nnjit_studio.compiler.any_size.imports import import_any
from nnjit_studio.compiler.any_size.runs.runner import OpenRunner
from nnjit_studio.compiler.importer import passes
from nnjit_studio.compiler.importer.program.bytes import merge_numbers
from nnjit_studio.records import TIERS

RNG = np.random.default_rng(9)
SIZES = (1, 2, 3, 6, 13, 64, 700)


def layers(folder: Path) -> Path:
    """Two products of rounded rows with unsigned weights that have a zero point for each column."""
    nodes: list[Any] = []
    weights: dict[str, Any] = {}
    for i, (read, write) in enumerate((("x", "h"), ("h", "y"))):
        names = [f"{n}{i}" for n in "qzswuf"]
        q, z, s, w, u, f = names
        nodes += [
            node("DynamicQuantizeLinear", [read], [q, s, z]),
            node("MatMulInteger", [q, w, z, u], [f"i{i}"]),
            node("Cast", [f"i{i}"], [f], to=TensorProto.FLOAT),
            node("Mul", [s, f"step{i}"], [f"t{i}"]),
            node("Mul", [f, f"t{i}"], [f"g{i}"]),
            node("Relu", [f"g{i}"], [write]),
        ]
        weights |= {
            w: RNG.integers(0, 256, (20, 20)).astype(np.uint8),
            u: RNG.integers(100, 150, 20).astype(np.uint8),
            f"step{i}": np.float32(0.01),
        }
    return written(folder, nodes, ["batch", 20], weights)


def made(path: Path, folder: Path) -> tuple[int, list[bytes]]:
    """The number of steps, and the bytes of results at all sizes in both tiers."""
    folder.mkdir()
    found = import_any(path, folder / "w.bin", {"x": rand(5, 20)})
    assert found is not None and found.notes == ()
    results = []
    for tier in TIERS:
        runner = OpenRunner(found.plan, found.kernels, folder / "w.bin", tier)
        for size in SIZES:
            x = np.random.default_rng(size).standard_normal((size, 20)).astype(np.float32)
            results.append(runner.run({"batch": size}, {"x": x})["y"].tobytes())
    return len(found.plan.steps), results


def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in passes.AROUND_BYTES:
        monkeypatch.setattr(passes, name, lambda calls, root: calls)


def test_fewer_steps_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = layers(tmp_path)
    steps, results = made(path, tmp_path / "one")
    apart(monkeypatch)
    before, expected = made(path, tmp_path / "apart")
    assert results == expected
    assert (steps, before) == (9, 19)


def test_what_is_small_enough_at_some_sizes_alone_stays_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layers(tmp_path)
    # The importer takes samples of eight rows and more.
    monkeypatch.setattr(merge_numbers, "_MOST_POINTS", 8)
    steps, results = made(path, tmp_path / "one")
    apart(monkeypatch)
    assert (steps, results) == made(path, tmp_path / "apart")
