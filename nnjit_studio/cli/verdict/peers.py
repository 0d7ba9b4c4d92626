"""``nnjit peers``: what models are compared with, found or installed."""

from __future__ import annotations

from pathlib import Path

import click

from nnjit_studio.cli.common import JSON, answer, note
from nnjit_studio.cli.verbs import LazyGroup, option, verb
from nnjit_studio.verdict import peers as known
from nnjit_studio.verdict.peers import Peer

VERBS = {"install": "peers:install", "list": "peers:list_peers"}


@click.group(cls=LazyGroup, package=__package__, verbs=VERBS)
def peers() -> None:
    """Find or install ONNX Runtime Web, which models are compared with."""


@verb("list")
def list_peers(as_json: bool = JSON) -> None:
    """Show which ONNX Runtime Web models are compared with."""
    found = known.find_peer()
    document = {"ok": True, "peers": [_told(found)] if found else []}
    absent = f"ONNX Runtime Web is not installed. {known.HOW_TO_GET}"
    answer(as_json, document, _text(found) if found else absent)


@verb()
def install(
    folder: Path | None = option(None, "Put it there; by default in the user's data folder."),
    missing: bool = option(False, "Only where none is found.", flag="--if-missing"),
    as_json: bool = JSON,
) -> None:
    """Fetch the pinned ONNX Runtime Web through npm: 9 MB to load, 14 MB on the disk."""
    found = known.find_peer(folder) if missing else None
    if found is None:
        note(f"fetching {known.PACKAGE} {known.VERSION} through npm")
        found = known.install(folder)
    answer(as_json, {"ok": True, "peers": [_told(found)]}, _text(found))


def _told(peer: Peer) -> dict[str, str]:
    return {"name": "ort", "version": peer.version, "folder": str(peer.node_modules)}


def _text(peer: Peer) -> str:
    return f"ONNX Runtime Web {peer.version} in {peer.node_modules}"
