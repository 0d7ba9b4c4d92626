"""ONNX Runtime Web is found where it is, and fetched only when that is asked for."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from verdicts import fake_peer

from nnjit_studio.errors import UserError
from nnjit_studio.verdict import peers


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(peers.VARIABLE, raising=False)
    monkeypatch.setattr(peers, "own_folder", lambda: tmp_path / "own")
    monkeypatch.setattr(peers.nnjit_studio, "__file__", str(tmp_path / "a" / "b"))


def test_it_is_found_where_it_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert peers.find_peer() is None
    folder = fake_peer(tmp_path / "project", "")
    package = folder / "node_modules" / peers.PACKAGE
    for given in (folder, folder / "node_modules", package):
        found = peers.find_peer(given)
        assert found == peers.Peer("9.9.0", folder / "node_modules")
    monkeypatch.setenv(peers.VARIABLE, str(folder))
    assert peers.find_peer() is not None
    monkeypatch.delenv(peers.VARIABLE)
    (folder / "deep").mkdir()
    monkeypatch.chdir(folder / "deep")
    assert peers.find_peer() is not None, "in node_modules of a folder above"


def test_a_package_without_the_files_of_a_page_is_none(tmp_path: Path) -> None:
    folder = fake_peer(tmp_path, "")
    (folder / "node_modules" / peers.PACKAGE / "dist" / peers.FILES[-1]).unlink()
    assert peers.find_peer(tmp_path) is None


def archive(folder: Path) -> None:
    with tarfile.open(folder / "x.tgz", "w:gz") as tar:
        for name in (*(f"dist/{f}" for f in peers.FILES), "package.json", "../../evil", "dist/big"):
            data = b'{"version": "1.30.0"}'
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def test_only_the_expected_archive_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def npm(command: list[str], cwd: Path, **_: Any) -> subprocess.CompletedProcess[str]:
        archive(cwd)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(peers, "find_program", lambda name: Path("/bin/npm"))
    monkeypatch.setattr(subprocess, "run", npm)
    with pytest.raises(UserError, match="not the one that was expected"):
        peers.install()
    assert peers.find_peer() is None
    monkeypatch.setattr(peers, "INTEGRITY", "sha512-" + _digest(tmp_path))
    assert peers.install().version == "1.30.0"
    assert not (tmp_path / "own/evil").exists() and not list(tmp_path.glob("**/big"))


def _digest(folder: Path) -> str:
    import base64
    import hashlib

    archive(folder)
    return base64.b64encode(hashlib.sha512((folder / "x.tgz").read_bytes()).digest()).decode()


def test_without_npm_or_network_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "find_program", lambda name: None)
    with pytest.raises(UserError, match="not on this machine"):
        peers.install()
    monkeypatch.setattr(peers, "find_program", lambda name: Path("/bin/npm"))
    failed = subprocess.CompletedProcess([], 1, "", "npm error network ENOTFOUND")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(UserError, match="ENOTFOUND"):
        peers.install()
