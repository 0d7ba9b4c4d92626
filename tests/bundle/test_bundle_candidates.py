"""Candidates in a bundle: written, verified, and refused when they cannot be judged or run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_bundle import (
    CANDIDATE,
    ENGINE,
    edit_json,
    kernel,
    kernels,
    module,
    plan,
    problem,
    rewrite,
)

from nnjit_studio.bundle import BundleParts, Candidates, verify_bundle, write_bundle
from nnjit_studio.bundle.candidates import allowed_address, trial_memory
from nnjit_studio.errors import BundleError
from nnjit_studio.records import Fixture, FixtureArg

OTHER = replace(CANDIDATE, y0=3, y1=3)


def fixture(dtype: str = "f32", bound: float = 0.01) -> Fixture:
    values = {"f32": "<f4", "i32": "<i4"}[dtype]
    data = np.array([-1, 1] * 4).astype(values)
    weight = np.array([-1, 1] * 40).astype(values)
    args = (
        FixtureArg("input", dtype, data.nbytes, data.tobytes()),
        FixtureArg("input", dtype, weight.nbytes, weight.tobytes(), (4, 20)),
        FixtureArg("output", dtype, 160),
    )
    expected = np.full(40, 2).astype(values)
    return Fixture("matmul#1", args, (expected,), (np.full(40, bound, np.float32),))


def candidates(**changes: Any) -> Candidates:
    form: dict[str, Any] = {"candidate": OTHER, "panels": ((1, 4),)}
    found = Candidates(
        [
            kernel("matmul#1", module(3, 2), **form),
            kernel("matmul#1", module(3, 3), "relaxed-simd", **form),
        ],
        [trial_memory(fixture())],
        "https://times.example/nnjit",
    )
    return replace(found, **changes)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def call(found: Candidates | None = None) -> Path:
        weights = tmp_path / "weights"
        weights.write_bytes(bytes(512))
        parts = BundleParts(plan(), weights, kernels(), ENGINE, candidates=found or candidates())
        return write_bundle(tmp_path / "tiny.zip", parts, "tiny", {})

    return call


def test_candidates_are_listed_hashed_and_verified(write: Callable[..., Path]) -> None:
    path = write()
    report = verify_bundle(path)
    assert report.problems == ()
    assert report.kernels == 5
    with zipfile.ZipFile(path) as archive:
        entry = json.loads(archive.read("manifest.json"))["candidates"]
        readme = archive.read("README.txt").decode()
    assert [k["settings"] for k in entry["kernels"]] == [str(OTHER)]
    assert set(entry["kernels"][0]["tiers"]) == {"simd128", "relaxed-simd"}
    assert entry["trials"][0]["args"][0] | {"low": -1, "high": 1} == entry["trials"][0]["args"][0]
    assert "https://times.example/nnjit" in readme


def test_a_bundle_may_list_the_lots_of_a_service_alone(write: Callable[..., Path]) -> None:
    lots = {"matmul#1": {"simd128/16": ["a" * 64]}}
    path = write(candidates(kernels=[], share="", lots=lots))
    assert verify_bundle(path).problems == ()
    with zipfile.ZipFile(path) as archive:
        entry = json.loads(archive.read("manifest.json"))["candidates"]
    assert (entry["kernels"], entry["lots"], len(entry["trials"])) == ([], lots, 1)


def test_two_right_kernels_may_differ_by_both_of_their_errors() -> None:
    assert trial_memory(fixture()).tolerance == pytest.approx(2 * 0.01 / 2)
    assert trial_memory(fixture("i32", 0.5)).tolerance == 0  # exact


def test_a_changed_candidate_breaks_the_bundle(write: Callable[..., Path]) -> None:
    path = write()
    name = f"kernels/{candidates().kernels[0].sha256}.wasm"

    def change(files: dict[str, bytes]) -> None:
        files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])

    assert "sha256 differs" in problem(rewrite(path, change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c["kernels"][0].update(workload="other#1"), "does not run"),
        (lambda c: c["kernels"][0].update(panels=[[1, 64]]), "do not fit"),
        (lambda c: c["kernels"][0].update(panels=[[0, 4]]), "do not fit"),
        (lambda c: c["kernels"].append(c["kernels"][0]), "is there twice"),
        (lambda c: c["kernels"][0]["tiers"].pop("simd128"), "tier simd128"),
        (lambda c: c["trials"].clear(), "no trial memory"),
        (lambda c: c["trials"][0].update(tolerance=1e9), "every result for right"),
        (lambda c: c["trials"][0]["args"].pop(), "not the arguments"),
        (lambda c: c["trials"][0]["args"][0].update(nbytes=1 << 40), "cannot be made"),
        (lambda c: c.update(lots={"matmul#1": {"simd128/16": ["x"]}}), "not 64 hex digits"),
        (lambda c: c.update(share="http://elsewhere.example/"), "may be sent to"),
    ],
)
def test_candidates_that_cannot_be_tried_are_refused(
    write: Callable[..., Path], change: Callable[[Any], None], words: str
) -> None:
    def edit(files: dict[str, bytes]) -> None:
        edit_json(files, lambda m: change(m["candidates"]), "manifest.json")
        for name in [n for n in files if n.startswith("kernels/")]:
            if name.encode() not in files["manifest.json"]:
                del files[name]

    assert words in problem(rewrite(write(), edit))


def test_tiers_of_a_candidate_belong_together(write: Callable[..., Path]) -> None:
    low, high = candidates().kernels
    with pytest.raises(BundleError, match="tiers differ"):
        write(candidates(kernels=[low, replace(high, panels=((1, 8),))]))
    with pytest.raises(BundleError, match="lacks a tier"):
        write(candidates(kernels=[high]))


def test_times_go_over_https_or_stay_on_the_machine() -> None:
    good = ["https://times.example/a", "http://localhost:8000/", "http://127.0.0.1/x"]
    bad = ["http://times.example/", "https://a.example/?who=me", "ftp://a.example", "times", ""]
    bad += ["https://user:word@a.example/", "https://[", "javascript:alert(1)"]
    assert all(map(allowed_address, good))
    assert not any(map(allowed_address, bad))
