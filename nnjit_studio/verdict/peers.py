"""ONNX Runtime Web as it is installed on this machine, and its installation when asked for."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

import nnjit_studio
from nnjit_studio.errors import UserError
from nnjit_studio.support.programs import find_program

PACKAGE = "onnxruntime-web"
VERSION = "1.30.0"
INTEGRITY = (
    "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZ"
    "ClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
)
"""Of the package's archive, as the npm registry states it."""
MODULE = "ort.wasm.min.mjs"
FILES = (MODULE, "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
"""Of the folder ``dist``: what a page with the Wasm backend loads."""
VARIABLE = "NNJIT_PEERS"
"""Names a folder with the packages of peers."""
INSTALL_TIMEOUT_S = 300.0
HOW_TO_GET = "Run `nnjit peers install`, or name a folder that has it with NNJIT_PEERS."


@dataclass(frozen=True)
class Peer:
    """An installed ONNX Runtime Web."""

    version: str
    node_modules: Path
    """The folder that holds the package by npm's name."""

    @property
    def module(self) -> Path:
        """Its Wasm module."""
        return self.node_modules / PACKAGE / "dist" / FILES[-1]


def own_folder() -> Path:
    """Where peers are installed for this user."""
    return Path(platformdirs.user_data_dir("nnjit-studio", appauthor=False)) / "peers"


def find_peer(given: Path | None = None) -> Peer | None:
    """The first ONNX Runtime Web that is found; nothing is fetched.

    Looked for in the given folder alone; else in the one that :data:`VARIABLE` names, in
    ``node_modules`` here or above, in the source tree's, and among the user's own peers.
    """
    named = [Path(text)] if (text := os.environ.get(VARIABLE)) else []
    places = [given] if given else [*named, *_usual_places()]
    return next((peer for place in places for peer in _in(place)), None)


def _usual_places() -> Iterator[Path]:
    here = Path.cwd()
    yield from (here, *here.parents)
    yield here / "benchmarks"
    yield Path(nnjit_studio.__file__).parents[1] / "benchmarks"
    yield own_folder()


def _in(place: Path) -> Iterator[Peer]:
    """A project's folder, its ``node_modules``, or the package itself may be named."""
    own = [place.parent] if place.name == PACKAGE else []
    for node_modules in (place / "node_modules", place, *own):
        package = node_modules / PACKAGE
        try:
            version = json.loads((package / "package.json").read_text())["version"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if all((package / "dist" / name).is_file() for name in FILES):
            yield Peer(str(version), node_modules)


def install(folder: Path | None = None) -> Peer:
    """Fetch the pinned version through npm, and keep what a page needs of it.

    The archive is refused unless its digest is the one that is written down here.

    Raises
    ------
    UserError
        When npm is missing, cannot fetch it, or gives other bytes.
    """
    folder, npm = folder or own_folder(), find_program("npm")
    if npm is None:
        raise UserError(
            "npm, which fetches ONNX Runtime Web, is not on this machine.",
            f"Install Node.js, or name a folder that has {PACKAGE} with {VARIABLE}.",
        )
    with tempfile.TemporaryDirectory(prefix="nnjit-peers-") as scratch:
        archive = _fetched(npm, Path(scratch))
        digest = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if f"sha512-{digest}" != INTEGRITY:
            raise UserError(
                f"The archive of {PACKAGE} {VERSION} is not the one that was expected.",
                "Check which registry npm uses: `npm config get registry`.",
            )
        _unpack(archive, folder / "node_modules" / PACKAGE)
    found = find_peer(folder)
    assert found is not None
    return found


def _fetched(npm: Path, scratch: Path) -> Path:
    """The package's archive; npm runs next to its own Node.js, without a project's settings."""
    environment = {**os.environ, "PATH": f"{npm.parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [str(npm), "pack", f"{PACKAGE}@{VERSION}", "--ignore-scripts", "--silent"]
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            env=environment,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise UserError(f"npm did not fetch {PACKAGE}: {e}.", "Try it again later.") from None
    archives = list(scratch.glob("*.tgz"))
    if done.returncode or len(archives) != 1:
        said = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise UserError(
            f"npm did not fetch {PACKAGE} {VERSION}: {said}",
            f"Check the network, or name a folder that has it with {VARIABLE}.",
        )
    return archives[0]


def _unpack(archive: Path, package: Path) -> None:
    """The files that a page loads, with the package's own description and licence."""
    (package / "dist").mkdir(parents=True, exist_ok=True)
    wanted = {f"package/dist/{name}": package / "dist" / name for name in FILES}
    wanted |= {f"package/{name}": package / name for name in ("package.json", "LICENSE")}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            content = tar.extractfile(member) if member.name in wanted else None
            if content is not None:
                wanted[member.name].write_bytes(content.read())
