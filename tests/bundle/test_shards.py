"""Weights in several files: where they are cut, and that every one of them is verified."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from test_bundle import edit_json, rewrite, write  # noqa: F401

from nnjit_studio.bundle import read_bundle, shards, verify_bundle
from nnjit_studio.bundle.shards import cut
from nnjit_studio.errors import BundleError

MIB = 1 << 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "LEAST_SHARD_BYTES", 64)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(np.arange(128, dtype="<f4").tobytes())
    return path


def sizes(found: tuple[shards.Shard, ...]) -> list[int]:
    assert [s.begin for s in found] == [
        sum(s.entry.nbytes for s in found[:i]) for i in range(len(found))
    ]
    return [s.entry.nbytes for s in found]


def test_small_weights_are_one_file(weights: Path) -> None:
    (only,) = cut(weights, [0, 128], 512)
    assert only.entry.file == "weights.bin"
    assert cut(weights, [0, 128], 0) == (only,)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([0], [128, 128, 128, 128]),
        ([0, 64, 128, 192], [64, 64, 64, 128, 128, 64]),
        ([0, 448], [128, 128, 128, 64, 64]),
        ([0, 0, 512], [128, 128, 128, 128]),
    ],
)
def test_large_weights_begin_shards(weights: Path, starts: list[int], expected: list[int]) -> None:
    assert sizes(cut(weights, starts, 128)) == expected


def test_small_weights_are_gathered(tmp_path: Path) -> None:
    path = tmp_path / "w"
    path.write_bytes(np.random.default_rng(0).bytes(64 * 20))
    found = cut(path, range(0, 64 * 20, 64), 256)
    assert sizes(found) == [256] * 5


def test_a_longer_weight_leaves_the_shards_of_later_ones(tmp_path: Path) -> None:
    """An update sends what has changed, though everything behind it has moved."""
    rng = np.random.default_rng(1)
    parts = [rng.bytes(n) for n in (64, 640, 1024, 128, 512)]

    def shards_of(parts: list[bytes]) -> set[str]:
        path = tmp_path / "w"
        path.write_bytes(b"".join(parts))
        starts = [sum(map(len, parts[:i])) for i in range(len(parts))]
        return {s.entry.sha256 for s in cut(path, starts, 256)}

    before = shards_of(parts)
    after = shards_of([parts[0] + rng.bytes(64), *parts[1:]])
    assert len(after - before) == 1 < len(after)


def test_the_parts_cover_the_file_whatever_its_weights(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    path = tmp_path / "w"
    for _ in range(50):
        lengths = 64 * rng.integers(1, 40, rng.integers(1, 12))
        path.write_bytes(rng.bytes(int(lengths.sum())))
        found = cut(path, [0, *np.cumsum(lengths).tolist()], 512)
        assert sum(sizes(found)) == lengths.sum()
        assert all(0 < n <= 512 for n in sizes(found))
        assert all(a.begin < b.begin for a, b in pairwise(found))


def test_shards_that_are_too_small_are_refused(weights: Path) -> None:
    with pytest.raises(BundleError, match="too small for 512 bytes of weights"):
        cut(weights, [0], 32)


def test_a_sharded_bundle_comes_back(write: Callable[..., Path], weights: Path) -> None:  # noqa: F811
    path = write(shard_bytes=128)
    assert verify_bundle(path).ok
    manifest = read_bundle(path).manifest
    assert manifest.weights_bytes == 512 and len(manifest.weights) > 1
    with zipfile.ZipFile(path) as archive:
        data = json.loads(archive.read("manifest.json"))
        joined = b"".join(archive.read(s["file"]) for s in data["weights"]["shards"])
        assert archive.getinfo(manifest.weights[0].file).compress_type == zipfile.ZIP_STORED
    assert (data["version"], joined) == (2, weights.read_bytes())


def test_equal_shards_are_one_file(write: Callable[..., Path], weights: Path) -> None:  # noqa: F811
    weights.write_bytes(bytes(512))
    path = write(shard_bytes=128)
    assert verify_bundle(path).ok
    with zipfile.ZipFile(path) as archive:
        assert len([n for n in archive.namelist() if n.startswith("weights/")]) < 5


def test_every_shard_is_verified(write: Callable[..., Path]) -> None:  # noqa: F811
    path = write(shard_bytes=128)
    names = [file.file for file in read_bundle(path).manifest.weights]
    for name in names:

        def flip(files: dict[str, bytes], name: str = name) -> None:
            files[name] = bytes([files[name][0] ^ 1]) + files[name][1:]

        assert verify_bundle(rewrite(write(shard_bytes=128), flip)).problems == (
            f"The file {name!r} was changed: its sha256 differs.",
        )


def test_shards_that_do_not_fit_are_named(write: Callable[..., Path]) -> None:  # noqa: F811
    def without_last(manifest: dict[str, dict[str, list[dict[str, int]]]]) -> None:
        manifest["weights"]["shards"].pop()

    path = rewrite(
        write(shard_bytes=128), lambda files: edit_json(files, without_last, "manifest.json")
    )
    assert "are not the sum of their shards" in verify_bundle(path).problems[0]
