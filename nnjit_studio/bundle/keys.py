"""Keys that sign bundles: one's own in a file, those of others remembered at first use."""

from __future__ import annotations

import json
import os
import re
from datetime import date
from pathlib import Path

import platformdirs
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from nnjit_studio.errors import BundleError
from nnjit_studio.support.files import write_own_json


def signing_key(path: Path) -> Ed25519PrivateKey:
    """The private key of a PEM file, which is made when missing and for its owner alone.

    Raises
    ------
    BundleError
        When the file holds no Ed25519 key, or cannot be read or written.
    """
    try:
        if not path.exists():
            made = Ed25519PrivateKey.generate()
            text = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text)
        key: object = load_pem_private_key(path.read_bytes(), None)
    except OSError as e:
        raise BundleError(
            f"The key {path} cannot be used: {e.strerror}.", "Choose another file with --sign."
        ) from e
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise BundleError(
            f"The file {path} holds no Ed25519 key without a password.",
            "Name a file that does not exist yet to make one.",
        )
    return key


def public_key(text: str) -> str:
    """A public key as its 64 hexadecimal digits, from these or from a file that holds them.

    Raises
    ------
    BundleError
    """
    given = text.strip()
    if not re.fullmatch("[0-9a-fA-F]{64}", given) and Path(given).is_file():
        given = Path(given).read_text(errors="replace")[:200].strip()
    if not re.fullmatch("[0-9a-fA-F]{64}", given):
        raise BundleError(
            f"{text!r} is no public key.", "It is the 64 hexadecimal digits that `verify` prints."
        )
    return given.lower()


def remembered(name: str, key: str, file: Path | None = None) -> str:
    """Since when the bundles of a name are signed with this key; the first one is remembered.

    An empty ``key`` is a bundle that is not signed.

    Returns
    -------
    str
        The date as ISO 8601; empty where this is the first.

    Raises
    ------
    BundleError
        When the bundles of this name had another key before.
    """
    folder = platformdirs.user_config_dir("nnjit-studio", appauthor=False)
    file = file or Path(folder) / "signers.json"
    try:
        known = json.loads(file.read_text("utf-8")) if file.exists() else {}
        before = known.get(name)
        if before is None and not key:
            return ""
        if before is None:
            write_own_json(file, known | {name: {"key": key, "since": date.today().isoformat()}})
            return ""
        since, old = str(before["since"]), str(before["key"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise BundleError(
            f"The known signers in {file} cannot be read.", "Remove the file to begin anew."
        ) from e
    if old != key:
        raise BundleError(
            f"The bundle {name!r} is {f'signed with {key}' if key else 'not signed'}, but since "
            f"{since} its key was {old}.",
            f"Ask its maker; if that is right, remove {name!r} from {file}.",
        )
    return since
