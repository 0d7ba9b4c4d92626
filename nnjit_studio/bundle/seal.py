"""The seal of a bundle: a digest of every byte before it, and who vouches for that.

It is the comment of the zip, in one spelling only, so that no bit of the file is outside of it:
``{"sha256": ...}``, or with ``key`` and ``signature``, an Ed25519 key (RFC 8032) and its signature
of the digest, in lower-case hexadecimal digits. The digest ends with the two bytes that give the
comment's length.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nnjit_studio.errors import BundleError

_CHUNK_BYTES = 1 << 20
_CONTEXT = b"NNJIT Studio bundle, sha256 "
"""Begins what is signed, so that a signature is of nothing else."""


@dataclass(frozen=True)
class Seal:
    """``key`` is that of the signature, which holds; empty where nobody signed."""

    sha256: str
    key: str = ""


def write_seal(path: Path, signer: Ed25519PrivateKey | None = None) -> None:
    """Seal a zip in place, anew if it has a seal."""
    with zipfile.ZipFile(path) as archive:
        old = len(archive.comment)
    os.truncate(path, path.stat().st_size - old)
    key = signer.public_key().public_bytes_raw().hex() if signer else ""
    length = len(_text("0" * 64, key, "0" * 128 if signer else ""))
    with path.open("rb+") as file:
        file.seek(-2, 2)
        file.write(length.to_bytes(2, "little"))
    digest = _digest(path, path.stat().st_size)
    signature = signer.sign(_CONTEXT + digest.encode()).hex() if signer else ""
    with path.open("ab") as file:
        file.write(_text(digest, key, signature))


def read_seal(path: Path) -> Seal:
    """The seal of a bundle, which fits its bytes.

    Raises
    ------
    BundleError
        When there is none, a byte was changed, or the signature does not hold.
    """
    with zipfile.ZipFile(path) as archive:
        comment = archive.comment
    again = "Export it again, or get it from its maker again."
    try:
        known = json.loads(comment)
        digest, key, signature = (str(known.get(n, "")) for n in ("sha256", "key", "signature"))
    except (ValueError, AttributeError, RecursionError):
        raise BundleError("The bundle has no seal: bytes may have been changed.", again) from None
    if _text(digest, key, signature) != comment or digest != _digest(
        path, path.stat().st_size - len(comment)
    ):
        raise BundleError("A byte of the bundle was changed: its seal does not fit.", again)
    if key or signature:
        try:
            signer = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
            signer.verify(bytes.fromhex(signature), _CONTEXT + digest.encode())
        except (ValueError, InvalidSignature):
            raise BundleError("The signature of the bundle does not hold.", again) from None
    return Seal(digest, key)


def _text(digest: str, key: str, signature: str) -> bytes:
    document = {"sha256": digest}
    if key or signature:
        document |= {"key": key.lower(), "signature": signature.lower()}
    return json.dumps(document).encode()


def _digest(path: Path, end: int) -> str:
    """The sha256 of the file's first ``end`` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while left := end - file.tell():
            digest.update(file.read(min(_CHUNK_BYTES, left)))
    return digest.hexdigest()
