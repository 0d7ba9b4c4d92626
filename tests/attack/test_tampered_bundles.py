"""Bundles that somebody changed, and who signed them."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from test_bundle import kernels, plan, rewrite

from nnjit_studio.bundle import (
    BundleParts,
    engine_files,
    signing_key,
    verify_bundle,
    write_bundle,
    write_seal,
)
from nnjit_studio.bundle import keys as keys_module
from nnjit_studio.bundle.keys import remembered
from nnjit_studio.bundle.manifest import safe_path
from nnjit_studio.cli.main import cli
from nnjit_studio.errors import BundleError

FLIPS = 300


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(
        keys_module.platformdirs, "user_config_dir", lambda *a, **k: str(tmp_path / "config")
    )
    weights = tmp_path / "weights.bin"
    weights.write_bytes(bytes(512))
    parts = BundleParts(plan(), weights, kernels(), engine_files())
    return write_bundle(tmp_path / "b.zip", parts, "tiny", {"target": "embedded"}, "2026-11-20")


def verified(*arguments: object) -> dict[str, object]:
    done = CliRunner().invoke(cli, ["verify", *map(str, arguments), "--json"])
    if done.exception is not None:
        raise done.exception
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("signed", [False, True])
def test_every_flipped_bit_is_found(bundle: Path, signed: bool) -> None:
    write_seal(bundle, Ed25519PrivateKey.generate() if signed else None)
    good, rng = bundle.read_bytes(), random.Random(19)
    assert verify_bundle(bundle).ok
    tail = range(len(good) - 400, len(good))
    for spot in (*(rng.randrange(len(good)) for _ in range(FLIPS)), *tail):
        bad = bytearray(good)
        bad[spot] ^= 1 << rng.randrange(8)
        bundle.write_bytes(bad)
        assert not verify_bundle(bundle).ok, spot


def test_bytes_before_and_after_are_found(bundle: Path) -> None:
    good = bundle.read_bytes()
    for bad in (b"x" + good, good + b"x", good[:-1]):
        bundle.write_bytes(bad)
        assert not verify_bundle(bundle).ok


def test_a_bundle_without_a_seal_is_refused(bundle: Path) -> None:
    with zipfile.ZipFile(bundle, "a") as archive:
        archive.comment = b""
    assert "no seal" in verify_bundle(bundle).problems[0]


@pytest.mark.parametrize(
    "name", ["con.txt", "aux", "nul.js", "trailing.", "x ", "a/COM1", "lpt9.tar.gz/x"]
)
def test_names_that_windows_reserves_are_refused(name: str) -> None:
    assert not safe_path(name)
    assert safe_path("console.js")


def test_foreign_code_is_not_called_all_right(bundle: Path) -> None:
    """Its hashes and its seal were made anew, as its maker can."""
    evil = b"fetch('https://evil.example');"

    def change(files: dict[str, bytes]) -> None:
        files["nnjit.js"] = evil
        manifest = json.loads(files["manifest.json"])
        entry = next(e for e in manifest["engine"] if e["file"] == "nnjit.js")
        entry |= {"nbytes": len(evil), "sha256": hashlib.sha256(evil).hexdigest()}
        files["manifest.json"] = json.dumps(manifest).encode()

    rewrite(bundle, change)
    assert verify_bundle(bundle).foreign == ("nnjit.js",)
    with pytest.raises(BundleError, match=r"not that of NNJIT Studio.*nnjit\.js"):
        verified(bundle)
    write_seal(bundle, Ed25519PrivateKey.generate())
    with pytest.raises(BundleError, match="not that of NNJIT Studio"):
        verified(bundle)  # an unknown signer vouches for nothing


def test_verify_says_what_it_proves(bundle: Path, tmp_path: Path) -> None:
    unsigned = verified(bundle)
    assert unsigned["key"] == ""
    assert any("who made it" in str(text) for text in unsigned["not_proved"])  # type: ignore[attr-defined]
    signer = signing_key(tmp_path / "key.pem")
    assert (tmp_path / "key.pem").stat().st_mode & 0o077 == 0
    key = signer.public_key().public_bytes_raw().hex()
    write_seal(bundle, signing_key(tmp_path / "key.pem"))
    first, second = verified(bundle), verified(bundle)
    assert first["key"] == second["key"] == key
    assert any("whose key" in str(text) for text in first["not_proved"])  # type: ignore[attr-defined]
    assert any("as since" in str(text) for text in second["proved"])  # type: ignore[attr-defined]
    (tmp_path / "key.pub").write_text(f"{key}\n")
    for given in (key, tmp_path / "key.pub"):
        assert any("demanded" in str(t) for t in verified(bundle, "--key", given)["proved"])  # type: ignore[attr-defined]


def test_another_signer_than_before_is_refused(bundle: Path) -> None:
    write_seal(bundle, Ed25519PrivateKey.generate())
    verified(bundle)
    write_seal(bundle, Ed25519PrivateKey.generate())
    with pytest.raises(BundleError, match=r"since .* its key was"):
        verified(bundle)
    with pytest.raises(BundleError, match="not with 0000"):
        verified(bundle, "--key", "0" * 64)
    write_seal(bundle)
    with pytest.raises(BundleError, match="not signed, but since"):
        verified(bundle)
    with pytest.raises(BundleError, match="not signed, not with"):
        verified(bundle, "--key", "0" * 64)


@pytest.mark.parametrize("text", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\n"])
def test_files_that_are_no_keys_are_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "key.pem").write_bytes(text)
    with pytest.raises(BundleError, match="no Ed25519 key"):
        signing_key(tmp_path / "key.pem")
    (tmp_path / "signers.json").write_bytes(text)
    with pytest.raises(BundleError, match="known signers"):
        remembered("m", "0" * 64, tmp_path / "signers.json")


@pytest.mark.parametrize("signed", [False, True])
def test_the_zip_tells_how_long_the_seal_is(bundle: Path, signed: bool) -> None:
    """A wrong length makes ``unzip`` end with 1, and other readers refuse the file."""
    write_seal(bundle, Ed25519PrivateKey.generate() if signed else None)
    content = bundle.read_bytes()
    end = content.rfind(b"PK\5\6")
    assert int.from_bytes(content[end + 20 : end + 22], "little") == len(content) - end - 22
