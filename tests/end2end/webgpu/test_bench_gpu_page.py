"""The GPU's benchmark pages in a real Chromium, on an adapter in software."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from nnjit_studio.bench.gpu import (
    dispatches as gpu_dispatches,
)
from nnjit_studio.bench.gpu import (
    gemv4 as gpu_gemv4,
)
from nnjit_studio.bench.gpu import (
    kernels as gpu_kernels,
)
from nnjit_studio.bench.gpu.page import GPU_PEERS
from nnjit_studio.bench.options import BenchOptions
from nnjit_studio.bench.peers.kernels import find_node_modules
from nnjit_studio.compiler.spelling import WorkloadSpec
from nnjit_studio.engine.browsers.browsers import is_root
from nnjit_studio.errors import UserError
from nnjit_studio.records import DeviceProfile

pytestmark = pytest.mark.chromium

QUICK = gpu_kernels.GpuPolicy(rounds=1, sample_ms=0.01, warm_ms=0.0, readbacks=1)


@pytest.fixture(autouse=True)
def chromium() -> None:
    if os.environ.get("NNJIT_SKIP_CHROMIUM") == "1":
        pytest.skip("NNJIT_SKIP_CHROMIUM=1")


def options(folder: Path) -> BenchOptions:
    """A software adapter, and the peers whose packages are installed, for CI has none."""
    alone = BenchOptions(folder, no_sandbox=is_root(), gpu="software")
    peers = ("ort", "tfjs")
    try:
        node_modules, _ = find_node_modules(peers, None, GPU_PEERS)
    except UserError:
        return alone
    return dataclasses.replace(alone, peers=peers, node_modules=node_modules)


def kernel(spec: WorkloadSpec, statement: str) -> dict[str, Any]:
    m, k, n = spec.dims
    code = f"""@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> c: array<f32>;
@compute @workgroup_size(8, 8) fn main(@builtin(global_invocation_id) at: vec3<u32>) {{
  if (at.x >= {n}u || at.y >= {m}u) {{ return; }}
  var sum = 0.0;
  for (var r = 0u; r < {k}u; r++) {{ sum = fma(a[at.y * {k}u + r], b[r * {n}u + at.x], sum); }}
  {statement}
}}"""
    dispatch = {
        "code": code,
        "entry": "main",
        "workgroups": [-(-n // 8), -(-m // 8), 1],
        "bindings": ["a0", "a1", "a2"],
        "access": ["read", "read", "read_write"],
    }
    return {"version": 1, "scratch": [], "requires": [], "dispatches": [dispatch]}


def some_kernels(spec: WorkloadSpec, device: DeviceProfile) -> list[dict[str, Any]]:
    """One that is right, one that does not compile, and two that are wrong."""
    assert device.gpu is not None and device.gpu.is_fallback
    place = f"c[at.y * {spec.dims[2]}u + at.x]"
    texts = {
        "nonsense": f"{place} = summ;",
        "wrong": f"{place} = sum + 0.01;",
        "lazy": f"if (at.x > 0u) {{ {place} = sum; }}",
        "right": f"{place} = sum;",
    }
    return [{"settings": name, "document": kernel(spec, text)} for name, text in texts.items()]


def test_kernels_beside_the_peers(tmp_path: Path) -> None:
    given = options(tmp_path)
    peers = given.peers
    shapes = gpu_kernels.parse_shapes("matmul:20x12x36:f32")
    result = gpu_kernels.compare(shapes, some_kernels, given, print, {}, QUICK)
    assert result["adapter"]["is_fallback"]
    assert "swiftshader" in result["flags"]
    (row,) = result["rows"]
    assert row["candidate"] == "right"
    errors = {t["settings"]: t["error"] for t in row["tried"]}
    assert "summ" in errors["nonsense"]
    assert "wrong by 0.0" in errors["wrong"]
    assert "wrong by Infinity" in errors["lazy"]
    assert errors["right"] == ""
    assert not row["failed"]
    assert row["max_rel_err"] < 1e-6
    assert all(e < 1e-6 for e in row["peers_max_rel_err"].values())
    for name in ("ours", *peers):
        assert row["submit"]["each"][name]["submits"] == 1
        assert row["pass"]["each"][name] == {
            "calls": 16,
            "passes": row["pass"]["each"][name]["passes"],
            "dispatches": 1,
            "submits": 1 / 16,
        }
        assert row["submit"]["gpu_ms"][name]["median"] > 0
        assert row["readback_ms"][name]["median"] > 0
    assert row["pass"]["each"]["ours"]["passes"] == 1 / 16
    assert set(row["own_clock_ms"]) == {"ours", *peers} - {"ort"}
    assert all(ms["median"] > 0 for ms in row["own_clock_ms"].values())


def test_dispatches_beside_the_peers(tmp_path: Path) -> None:
    given = options(tmp_path)
    peers = given.peers
    result = gpu_dispatches.compare(30, given, print, rounds=1)
    assert set(result["ms"]) == {"ours", *peers}
    assert set(result["ratio"]) == set(peers)
    for name, ms in result["ms"].items():
        assert 0 < result["queued_ms"][name]["median"] <= ms["median"]


def test_4_bit_products_beside_the_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel of each decoding: the adapter in software takes long to compile dozens."""
    settings = gpu_gemv4.settings

    def some(k: int, subgroups: bool, f16: bool) -> Iterable[gpu_gemv4.Setting]:
        return {s.decoding: s for s in settings(k, subgroups, f16)}.values()

    monkeypatch.setattr(gpu_gemv4, "settings", some)
    given = options(tmp_path)
    policy = dataclasses.replace(QUICK, readbacks=0)
    result = gpu_gemv4.compare([(64, 96)], given, print, 1, policy)
    wanted = {"ours", "ort-0", "ort-4"} if given.peers else {"ours"}
    assert {r["name"] for r in result["rows"]} == wanted
    for row in result["rows"]:
        assert row["max_rel_err"] < (0.05 if row["name"] == "ort-4" else 1e-5)
        assert row["products"] == 2
        assert row["submit"]["passes"] == 1
    ours = result["rows"][0]
    assert ours["pass"]["submits"] == 0.5
    assert not ours["failed"]


def test_a_software_adapter_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="software: its figures say nothing"):
        published = BenchOptions(tmp_path, no_sandbox=is_root(), gpu="software", published=True)
        gpu_dispatches.compare(5, published, print)
