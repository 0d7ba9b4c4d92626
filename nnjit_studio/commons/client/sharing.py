"""The switch, the key and the log of a device that shares: one folder, for its owner alone."""

from __future__ import annotations

import json
import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from nnjit_studio.commons.report.document import FORMAT, Finding, Report
from nnjit_studio.commons.report.signed import sign
from nnjit_studio.errors import CommonsError


class Sharing:
    """What a device remembers of its sharing.

    Parameters
    ----------
    folder
        Holds the key, the switch and the log; made at the first report.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key, self._off, self._log = (folder / n for n in ("device.key", "off", "sent.jsonl"))

    @property
    def stopped(self) -> bool:
        """Whether the switch is off; then nothing is sent."""
        return self._off.exists()

    def switch(self, on: bool) -> None:
        """Turn sharing on or off."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if on:
            self._off.unlink(missing_ok=True)
        else:
            self._off.touch()

    def check_on(self) -> None:
        """Refuse where the switch is off.

        Raises
        ------
        CommonsError
        """
        if self.stopped:
            raise CommonsError("Sharing is switched off.", "`nnjit share on` allows it.")

    def sent(self) -> list[dict[str, object]]:
        """Every report that left, oldest first: when, to whom, its bytes and the answer."""
        if not self._log.exists():
            return []
        return [json.loads(line) for line in self._log.read_text("utf-8").splitlines()]

    def prepare(self, server: str, findings: list[Finding], now: int) -> bytes:
        """The very bytes that would travel; nothing is sent.

        Raises
        ------
        CommonsError
            When sharing is switched off, or there is nothing to tell.
        """
        self.check_on()
        if not findings:
            raise CommonsError("Nothing is known that could be shared.", "Tune a model first.")
        number = 1 + sum(1 for entry in self.sent() if entry["server"] == server)
        return sign(Report(FORMAT, server, number, now, tuple(findings)), self._device_key())

    def note(self, server: str, data: bytes, now: int) -> None:
        """Write down what is about to leave, before it does, so that no number is used twice."""
        line = json.dumps({"sent": now, "server": server, "document": data.decode()})
        with self._log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _device_key(self) -> Ed25519PrivateKey:
        """Made for this alone, so that it joins with nothing else."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._key.exists():
            made = Ed25519PrivateKey.generate().private_bytes_raw()
            handle = os.open(self._key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(made)
        try:
            return Ed25519PrivateKey.from_private_bytes(self._key.read_bytes())
        except ValueError as e:
            raise CommonsError(
                f"The key {self._key} is damaged.", "Remove it; a new one is made."
            ) from e
