"""Bundles: written, read back, and refused when anything is wrong with them."""

import hashlib
import json
import posixpath
import re
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import wasmtime

from nnjit_studio.bundle import (
    BundleParts,
    engine,
    read_bundle,
    verify_bundle,
    write_bundle,
    write_folder,
    write_seal,
)
from nnjit_studio.bundle.manifest import Manifest, is_sealed, safe_path
from nnjit_studio.errors import BugError, BundleError, UserError
from nnjit_studio.model import Plan, PlanBuffer, PlanPort, PlanStep, TensorSpec
from nnjit_studio.records import Kernel
from nnjit_studio.records.candidate import Candidate

CREATED = "2026-11-20T12:00:00+00:00"
CANDIDATE = Candidate(x0=8, y0=6, r0=4, x1=8, y1=6, r1=384)
ENGINE = {"nnjit.js": b"export {};\n", "index.html": b"<!doctype html>\n"}


def module(pointers: int, salt: int = 0) -> bytes:
    parameters = " i32" * (pointers + 2)
    return bytes(
        wasmtime.wat2wasm(
            f'(module (import "env" "memory" (memory 1))'
            f' (func (export "run") (param{parameters}) i32.const {salt} drop))'
        )
    )


def kernel(workload: str, data: bytes, tier: str = "simd128", **changes: Any) -> Kernel:
    base = Kernel(workload, None, tier, data, hashlib.sha256(data).hexdigest(), (), 4)
    return replace(base, **changes)


def plan() -> Plan:
    """x[2,4] @ w[4,20] -> h; relu(h) -> y."""
    return Plan(
        "tiny",
        (PlanPort(TensorSpec("x", (2, 4), "f32"), 1),),
        (PlanPort(TensorSpec("y", (2, 20), "f32"), 3),),
        (
            PlanBuffer("weight", 0, 512, (4, 20)),
            PlanBuffer("arena", 0, 32),
            PlanBuffer("arena", 64, 160),
            PlanBuffer("arena", 256, 160),
        ),
        (
            PlanStep("call", "matmul#1", (1, 0, 2), "n0"),
            PlanStep("call", "relu#1", (2, 3), "n1"),
            PlanStep("return"),
        ),
        512,
        448,
    )


def kernels() -> list[Kernel]:
    panels = {"candidate": CANDIDATE, "panels": ((1, 8),)}
    return [
        kernel("matmul#1", module(3), **panels),
        kernel("matmul#1", module(3, 1), "relaxed-simd", **panels),
        kernel("relu#1", module(2)),
    ]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(np.arange(128, dtype="<f4").tobytes())
    return path


@pytest.fixture
def write(tmp_path: Path, weights: Path) -> Callable[..., Path]:
    def call(**changes: Any) -> Path:
        of_parts: dict[str, Any] = {
            "plan": plan(),
            "weights": weights,
            "kernels": kernels(),
            "engine_files": ENGINE,
            "samples": {"x": np.ones((2, 4), np.float32)},
        }
        others = {"out": tmp_path / "tiny.zip", "created": CREATED}
        for name, value in changes.items():
            (others if name in others else of_parts)[name] = value
        parts = BundleParts(**of_parts)
        return write_bundle(others["out"], parts, "tiny", {"target": "embedded"}, others["created"])

    return call


def rewrite(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """Write the bundle anew with changed files."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    write_seal(path)
    return path


def edit_json(files: dict[str, bytes], change: Callable[[Any], None], name: str) -> None:
    """Change a JSON file and, for the plan, its entry in the manifest."""
    data = json.loads(files[name])
    change(data)
    files[name] = json.dumps(data).encode()
    if name == "plan.json":
        digest, nbytes = hashlib.sha256(files[name]).hexdigest(), len(files[name])
        edit_json(files, lambda m: m["plan"].update(sha256=digest, nbytes=nbytes), "manifest.json")


def problem(path: Path) -> str:
    """All problems; reading must refuse for the first."""
    report = verify_bundle(path)
    assert not report.ok
    with pytest.raises(BundleError) as caught:
        read_bundle(path)
    assert report.problems[0] in caught.value.error
    return " ".join(report.problems)


def test_a_bundle_comes_back(write: Callable[..., Path], weights: Path) -> None:
    path = write()
    report = verify_bundle(path)
    assert report.problems == ()
    assert (report.name, report.kernels, report.files) == ("tiny", 3, 10)
    assert report.to_json()["ok"] is True
    bundle = read_bundle(path)
    assert bundle.plan == plan()
    assert list(bundle.kernels) == kernels()
    assert bundle.manifest.created == CREATED
    assert bundle.manifest.tuned_on == {"target": "embedded"}
    with zipfile.ZipFile(path) as archive:
        assert archive.read("weights.bin") == weights.read_bytes()


def test_a_changed_byte_of_the_manifest_is_seen(write: Callable[..., Path]) -> None:
    with zipfile.ZipFile(write()) as archive:
        text = archive.read("manifest.json")
    assert is_sealed(text)
    assert not is_sealed(text.replace(b'"parallel_extent": ', b'"parallel_extent": 1', 1))
    assert is_sealed(b'{"of": "an older NNJIT Studio"}')


def test_the_manifest_is_what_the_page_reads(write: Callable[..., Path]) -> None:
    with zipfile.ZipFile(write()) as archive:
        data = json.loads(archive.read("manifest.json"))
        sample = archive.read("samples/0.bin")
        readme = archive.read("README.txt").decode()
        stored = {i.filename: i.compress_type for i in archive.infolist()}
    assert (data["format"], data["version"]) == ("nnjit-bundle", 1)
    assert data["plan"]["file"] == "plan.json"
    assert data["weights"] == {
        "file": "weights.bin",
        "sha256": hashlib.sha256(np.arange(128, dtype="<f4").tobytes()).hexdigest(),
        "nbytes": 512,
    }
    matmul = data["kernels"][0]
    assert matmul["workload"] == "matmul#1"
    assert matmul["settings"] == str(CANDIDATE)
    assert (matmul["panels"], matmul["parallel_extent"]) == ([[1, 8]], 4)
    assert list(matmul["tiers"]) == ["relaxed-simd", "simd128"]
    assert list(data["kernels"][1]["tiers"]) == ["simd128"]
    assert [f["file"] for f in data["engine"]] == ["index.html", "nnjit.js"]
    assert data["inputs"] == [{"name": "x", "dtype": "f32", "shape": [2, 4]}]
    assert data["outputs"] == [{"name": "y", "dtype": "f32", "shape": [2, 20]}]
    assert data["samples"]["inputs"][0]["file"] == "samples/0.bin"
    assert sample == np.ones((2, 4), "<f4").tobytes()
    assert '"x": new Tensor("float32", data, [2, 4])' in readme
    assert stored["weights.bin"] == zipfile.ZIP_STORED
    assert {**Manifest.from_json(data).to_json(), "sha256": data["sha256"]} == data


def test_equal_arguments_give_equal_bytes(write: Callable[..., Path], tmp_path: Path) -> None:
    one = write().read_bytes()
    two = write(
        out=tmp_path / "two.zip",
        kernels=kernels()[::-1],
        engine_files=dict(reversed(ENGINE.items())),
    )
    assert two.read_bytes() == one
    later = write(out=tmp_path / "later.zip", created="2026-11-21T12:00:00+00:00")
    assert later.read_bytes() != one


def test_a_folder_has_the_files_of_the_zip(weights: Path, tmp_path: Path) -> None:
    parts = BundleParts(plan(), weights, kernels(), ENGINE)
    with zipfile.ZipFile(write_bundle(tmp_path / "b.zip", parts, "tiny", {})) as archive:
        zipped = {name: archive.read(name) for name in archive.namelist()}
    manifest = write_folder(tmp_path / "b", parts, "tiny")
    files = manifest.parent.rglob("*")
    written = {
        f.relative_to(manifest.parent).as_posix(): f.read_bytes() for f in files if f.is_file()
    }
    assert set(written) == set(zipped) and manifest.name in written
    dated = {name for name, data in written.items() if data != zipped[name]}
    assert dated <= {"manifest.json", "README.txt"}


def test_without_samples_and_with_a_date(write: Callable[..., Path]) -> None:
    manifest = read_bundle(write(samples={}, created="")).manifest
    assert manifest.samples == ()
    assert "samples" not in manifest.to_json()
    assert manifest.created.startswith("20")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kernels": kernels()[:2]}, "relu#1 has no kernel of the tier simd128"),
        ({"kernels": kernels()[1:]}, "matmul#1 has no kernel of the tier simd128"),
        (
            {"kernels": [*kernels()[1:], kernel("matmul#1", module(3))]},
            "from different candidates",
        ),
        (
            {"kernels": [*kernels()[:2], kernel("relu#1", module(3))]},
            "gives 2 buffers to a kernel of 3",
        ),
        ({"kernels": [*kernels()[:2], kernel("relu#1", b"junk")]}, "not a Wasm module"),
        ({"samples": {"z": np.ones((2, 4), np.float32)}}, "fits no input"),
        ({"samples": {"x": np.ones((2, 5), np.float32)}}, "fits no input"),
        ({"samples": {"x": np.ones((2, 4))}}, "float64"),
        ({"engine_files": {"nnjit.js": b""}}, "'index.html' is missing"),
        ({"engine_files": ENGINE | {"../up.js": b""}}, "leaves the bundle"),
        ({"plan": replace(plan(), weights_bytes=1024)}, "differ in size"),
        ({"weights": Path("nowhere")}, "cannot be written: No such file"),
        ({"out": Path("no") / "such" / "folder.zip"}, "cannot be written: No such file"),
    ],
)
def test_what_does_not_fit_is_not_written(
    write: Callable[..., Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    old = write()
    before = old.read_bytes()
    with pytest.raises(BundleError, match=message):
        write(**changes)
    assert old.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tiny.zip", "weights"]


def test_what_is_ended_just_before_the_last_step_is_not_written(
    write: Callable[..., Path], weights: Path, tmp_path: Path
) -> None:
    told: list[str] = []
    out = write()
    old, names = out.read_bytes(), sorted(path.name for path in tmp_path.iterdir())

    def end(phase: str) -> None:
        told.append(phase)
        if len(told) == 3:
            raise UserError("The export was cancelled.")

    parts = BundleParts(plan(), weights, kernels(), ENGINE)
    with pytest.raises(UserError, match="cancelled"):
        write_bundle(out, parts, "another", {}, on_phase=end)
    assert out.read_bytes() == old
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert told[-1] == "putting the bundle in its place"


def test_a_full_disk_keeps_the_old_bundle(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = write().read_bytes()

    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nnjit_studio.support.files.os.fsync", full)
    with pytest.raises(BundleError, match="No space left"):
        write(created="later")
    assert (tmp_path / "tiny.zip").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


def wrong_step(p: Any) -> None:
    p["steps"][0]["args"][1] = 9


def two_layouts(p: Any) -> None:
    p["steps"].insert(1, {"op": "call", "workload": "relu#1", "args": [0, 3], "node": ""})


PLAN_DAMAGE: list[tuple[Callable[[Any], None], str]] = [
    (wrong_step, "Step 0 names a buffer that does not exist"),
    (two_layouts, "wanted in two layouts; step 1"),
    (lambda p: p["steps"].pop(), "not calls and one return"),
    (lambda p: p["steps"][0].update(op="jump"), "not calls and one return"),
    (lambda p: p["steps"][0].update(workload="conv#9"), "conv#9 has no kernel"),
    (lambda p: p["steps"][0].update(args=[0, 1, 2]), "in panels of 8, which do not fit"),
    (lambda p: p["buffers"][3].update(offset=320), "Buffer 3 is misaligned or outside its arena"),
    (lambda p: p["buffers"][3].update(offset=260), "Buffer 3 is misaligned"),
    (lambda p: p["buffers"][1].update(offset=-64), "Buffer 1 is misaligned"),
    (lambda p: p["buffers"][1].update(region="heap"), "unknown region 'heap'"),
    (lambda p: p["buffers"][0].update(nbytes=256), "too small for its packable weight"),
    (lambda p: p["outputs"][0].update(buffer=1), "buffer of tensor 'y' is too small"),
    (lambda p: p["outputs"][0].update(buffer=-1), "'y' has no buffer"),
    (lambda p: p["outputs"][0].update(found={"axis": 2, "count": 1}), "how much of tensor 'y'"),
    (lambda p: p["outputs"][0].update(found={"axis": 0, "count": 0}), "how much of tensor 'y'"),
    (lambda p: p["outputs"][0].update(found={"axis": 0, "count": 9}), "how much of tensor 'y'"),
    (lambda p: p["inputs"][0].update(found={"axis": 0, "count": 1}), "how much of tensor 'x'"),
    (lambda p: p["inputs"][0].update(buffer=0), "would overwrite a weight"),
    (lambda p: p["inputs"][0]["spec"].update(dtype="f99"), "unknown dtype"),
    (lambda p: p["inputs"][0]["spec"].update(name="z"), "not those of the plan"),
    (lambda p: p.update(arena_bytes=2**33), "more memory than a page has"),
    (lambda p: p.update(version=8), "its version is 8"),
    (lambda p: p.update(arena_bytes="much"), "Expected `int`"),
    (lambda p: p.pop("buffers"), "plan of the bundle cannot be read"),
    (lambda p: p["buffers"].append(3), "plan of the bundle cannot be read"),
]


@pytest.mark.parametrize(("damage", "message"), PLAN_DAMAGE)
def test_a_wrong_plan(
    write: Callable[..., Path], damage: Callable[[Any], None], message: str
) -> None:
    path = rewrite(write(), lambda files: edit_json(files, damage, "plan.json"))
    assert message in problem(path)


MANIFEST_DAMAGE: list[tuple[Callable[[Any], None], str]] = [
    (lambda m: m.update(format="zip"), "not one of an NNJIT bundle"),
    (lambda m: m.update(version=3), "format version 3"),
    (lambda m: m.update(version=2), "wrong: 'shards'"),
    (lambda m: m.pop("name"), "required field `name`"),
    (lambda m: m.update(kernels={}), "at `$.kernels`"),
    (lambda m: m.update(engine=[1]), "Expected `object`, got `int` - at `$.engine[0]`"),
    (lambda m: m["plan"].update(file="/etc/passwd"), "leaves the bundle"),
    (lambda m: m["plan"].update(file="a/../../b"), "leaves the bundle"),
    (lambda m: m["plan"].update(file="'absent.json' is missing"), "'absent.json' is missing"),
    (lambda m: m["plan"].update(sha256="0" * 64), "was changed"),
    (lambda m: m["plan"].update(sha256="zz"), "64 hex digits"),
    (lambda m: m["plan"].update(nbytes=True), "at `$.plan.nbytes`"),
    (lambda m: m["weights"].update(nbytes=10), "has 512 bytes instead of 10"),
    (lambda m: m["kernels"][0].update(panels=[[1]]), "at `$.kernels[0].panels[0]`"),
    (lambda m: m["kernels"][0].update(panels=[[1, 0]]), "panels of matmul#1"),
    (lambda m: m["kernels"][0].update(panels=[[5, 8]]), "has no argument 5"),
    (lambda m: m["kernels"][0].update(panels=[[1, 64]]), "in panels of 64"),
    (
        lambda m: m["kernels"][0].update(parallel_extent=0),
        "of matmul#1 is below 1",
    ),
    (lambda m: m["kernels"][0].update(settings="x0=?"), "cannot be read"),
    (lambda m: m["kernels"][0]["tiers"].update(avx=m["plan"]), "tiers of matmul#1"),
    (lambda m: m["kernels"].append(m["kernels"][1]), "two kernels"),
    (lambda m: m["inputs"][0].update(shape=[-1]), "shape of tensor 'x'"),
    (lambda m: m["inputs"][0].update(dtype="f99"), "unknown dtype"),
    (lambda m: m["outputs"].clear(), "not those of the plan"),
    (lambda m: m["samples"]["inputs"][0].update(shape=[4, 2]), "fits no input"),
]


@pytest.mark.parametrize(("damage", "message"), MANIFEST_DAMAGE)
def test_a_wrong_manifest(
    write: Callable[..., Path], damage: Callable[[Any], None], message: str
) -> None:
    path = rewrite(write(), lambda files: edit_json(files, damage, "manifest.json"))
    assert message in problem(path)


@pytest.mark.parametrize(
    "name",
    ["../evil.js", "/abs.js", "a/./b.js", "C:/x.js", "a\\b.js", "a//b.js", "folder/", "a\nb", ""],
)
def test_hostile_paths(write: Callable[..., Path], name: str) -> None:
    assert not safe_path(name)
    path = write()
    if name:
        with zipfile.ZipFile(path, "a") as archive:
            info = zipfile.ZipInfo("x")
            info.filename = name
            archive.writestr(info, b"")
        assert "leaves the bundle" in problem(path)


def test_a_file_too_many(write: Callable[..., Path]) -> None:
    path = rewrite(write(), lambda files: files.update({"extra.js": b"alert(1)"}))
    assert "'extra.js' is not in the manifest" in problem(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_twice(write: Callable[..., Path]) -> None:
    path = write()
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("NNJIT.js", b"")
    assert "there twice" in problem(path)


def test_a_symbolic_link(write: Callable[..., Path]) -> None:
    path = write()
    with zipfile.ZipFile(path, "a") as archive:
        info = zipfile.ZipInfo("link")
        info.create_system, info.external_attr = 3, 0o120777 << 16
        archive.writestr(info, b"/etc/passwd")
    assert "not a plain file" in problem(path)


def test_a_zip_bomb_is_not_unpacked(write: Callable[..., Path]) -> None:
    bomb = write()
    with zipfile.ZipFile(bomb) as archive:
        files = {n: archive.read(n) for n in archive.namelist() if n != "manifest.json"}
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr("manifest.json", b" " * (20 << 20))
    assert bomb.stat().st_size < 100_000
    assert "larger than" in problem(bomb)


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x05\x06" + b"\0" * 18])
def test_no_bundle_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    assert problem(path)
    with pytest.raises(BundleError, match="There is no bundle"):
        verify_bundle(tmp_path / "missing.zip")


def test_any_flipped_byte_is_found(write: Callable[..., Path], tmp_path: Path) -> None:
    path = write()
    good = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        spots = [
            i.header_offset + 30 + len(i.filename) + i.compress_size // 2
            for i in archive.infolist()
        ]
    for spot in spots:
        bad = bytearray(good)
        bad[spot] ^= 0x55
        path.write_bytes(bad)
        assert not verify_bundle(path).ok, spot
    for cut in range(1, len(good), 97):
        path.write_bytes(good[:cut])
        assert not verify_bundle(path).ok, cut


def test_weights_are_not_loaded_whole(
    write: Callable[..., Path], weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("reader", "writer"):
        monkeypatch.setattr(f"nnjit_studio.bundle.{room}.CHUNK_BYTES", 100)
    assert verify_bundle(write()).ok


@pytest.mark.parametrize(
    "optional", [{}, {"gpu": True}, {"generation": True}, {"gpu": True, "generation": True}]
)
def test_a_bundle_with_the_real_engine_is_closed(
    write: Callable[..., Path], optional: dict[str, bool]
) -> None:
    files = engine.engine_files(**optional)
    assert verify_bundle(write(engine_files=files)).ok
    for name, data in files.items():
        if name.endswith(".js"):
            code = re.sub(r"/\*.*?\*/", "", data.decode(), flags=re.S)
            needed = re.findall(r"""(?:from|import)\s*["'](\.[^"']+)["']""", code)
        else:
            needed = re.findall(r'(?:src|href)="([^"#]+)"', data.decode())
        folder = posixpath.dirname(name)
        assert {posixpath.normpath(posixpath.join(folder, n)) for n in needed} <= set(files), name
    assert b"demo/page.js" in files["index.html"]
    assert b"sdk/session.js" in files["nnjit.js"]


def test_engine_files_are_those_of_two_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    always = {"index.html", "nnjit.js", "engine/a.js", "sdk/b.css", "demo/p.js"}
    for name in {
        *always,
        "engine/generation/t.js",
        "sdk/gpu/p.js",
        "demo/text/t.js",
        "studio/s.js",
        "types/t.js",
    }:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(engine, "files", lambda package: tmp_path)
    assert engine.engine_files() == {name: name.encode() for name in always}
    assert engine.engine_files(generation=True).keys() == {*always, "engine/generation/t.js"}
    assert engine.engine_files(gpu=True).keys() == {*always, "sdk/gpu/p.js"}
    (tmp_path / "nnjit.js").rename(tmp_path / "engine" / "nnjit.js")
    with pytest.raises(BugError, match="not complete"):
        engine.engine_files()
    (tmp_path / "engine" / "nnjit.js").rename(tmp_path / "nnjit.js")
    shutil.rmtree(tmp_path / "engine")
    with pytest.raises(BugError, match=r"not complete.*engine is empty"):
        engine.engine_files()
