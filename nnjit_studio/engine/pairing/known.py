"""The devices that joined: a file for each, with the digest of its token."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
import secrets
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from nnjit_studio.errors import UserError
from nnjit_studio.support.files import write_json

MOST = 16
KEPT_S = 30 * 24 * 3600.0
"""After so long without a visit a device has to join anew."""
_ID = re.compile(r"[0-9a-f]{16}")
_SYSTEMS = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("CrOS", "ChromeOS"),
    ("Windows", "Windows"), ("Mac OS X", "macOS"), ("Linux", "Linux"),
)  # fmt: skip
_BROWSERS = (
    ("Firefox", "Firefox"), ("FxiOS", "Firefox"), ("Edg", "Edge"), ("CriOS", "Chrome"),
    ("Chrome", "Chromium"), ("Safari", "Safari"),
)  # fmt: skip
"""The first that is part of a user agent counts: most name others too."""


def house_folder(database: Path) -> Path:
    """Of the local authority and the known devices: next to the kernel database."""
    return database.parent / "house"


@dataclass(frozen=True)
class PairedDevice:
    """A device that may run kernels for this Studio."""

    id: str
    """16 hex digits, made here; also names it in the kernel database."""
    name: str
    """For people: browser and system, never what the device calls itself."""
    joined: str
    """ISO 8601."""
    digest: str
    """SHA-256 of its token, which only the device has."""
    most_s: float = 600.0
    """Seconds that it works at a time, by a person's choice."""


class KnownDevices:
    """Those in a folder. Each call looks there, so that another process may revoke one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "devices"

    def all(self) -> list[PairedDevice]:
        """Those that may come, the newest first."""
        ids = [file.stem for file in self._folder.glob("*.json")]
        found = [device for id in ids if (device := self.get(id))]
        return sorted(found, key=lambda device: device.joined, reverse=True)

    def get(self, id: str) -> PairedDevice | None:
        """The device of an identity; None where there is none, or its file is damaged or old."""
        file = self._folder / f"{id}.json"
        if not _ID.fullmatch(id):
            return None
        try:
            if time.time() - file.stat().st_mtime > KEPT_S:
                return None
            return PairedDevice(**json.loads(file.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def add(self, user_agent: str) -> tuple[PairedDevice, str]:
        """A new device and its token, which nobody keeps here.

        Raises
        ------
        UserError
            When there are too many.
        """
        if len(self.all()) >= MOST:
            raise UserError(f"{MOST} devices have joined already.", "Revoke one in the Studio.")
        secret, id = secrets.token_urlsafe(32), secrets.token_hex(8)
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        device = PairedDevice(id, name_of(user_agent), now, _digest(secret))
        self.put(device)
        return device, f"{id}.{secret}"

    def find(self, token: str) -> PairedDevice | None:
        """Whose token this is; None where it is nobody's."""
        id, _, secret = token.partition(".")
        device = self.get(id)
        if device is None or not secrets.compare_digest(device.digest, _digest(secret)):
            return None
        return device

    def visited(self, device: PairedDevice) -> None:
        """Note that it came now."""
        file = self._folder / f"{device.id}.json"
        if file.exists():
            os.utime(file)

    def seen(self, id: str) -> float | None:
        """Unix time of its last visit; None where it is not known."""
        try:
            return (self._folder / f"{id}.json").stat().st_mtime
        except OSError:
            return None

    def put(self, device: PairedDevice) -> None:
        """Keep a device as it is now: changed, or revoked by mistake. It counts as a visit.

        Raises
        ------
        UserError
            When the file cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(self._folder / f"{device.id}.json", asdict(device))

    def revoke(self, id: str) -> bool:
        """Forget a device: its token opens nothing any more. False where it was not known."""
        known = _ID.fullmatch(id) is not None and (self._folder / f"{id}.json").exists()
        if known:
            (self._folder / f"{id}.json").unlink(missing_ok=True)
        return known


def name_of(user_agent: str) -> str:
    """Browser and system of a user agent, such as ``Chromium on Android``."""
    first = [
        next((name for part, name in table if part in user_agent), "")
        for table in (_BROWSERS, _SYSTEMS)
    ]
    return " on ".join(filter(None, first)) or "A device"


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
