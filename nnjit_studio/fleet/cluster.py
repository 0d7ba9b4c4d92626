"""The machines of a fleet: processes of this one, or those of a Dask scheduler."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nnjit_studio.errors import UserError
from nnjit_studio.support.processes import usable_cores


@dataclass(frozen=True)
class Place:
    """Where a fleet works.

    ``scheduler`` is an address such as ``tls://host:8786``; empty for workers on this machine.
    The three files are Dask's: who the scheduler is trusted by, and who asks.
    """

    scheduler: str = ""
    workers: int = 0
    """On this machine; 0 for half of its cores, because tuning measures."""
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    @property
    def count(self) -> int:
        return self.workers or max(1, usable_cores() // 2)


@contextlib.contextmanager
def connected(place: Place) -> Iterator[Any]:
    """A ``distributed.Client`` of the place, closed at the end.

    Raises
    ------
    UserError
        Dask is missing, the scheduler does not answer, or it would be spoken to without TLS over
        a network.
    """
    try:
        from distributed import Client, LocalCluster
        from distributed.security import Security
    except ImportError as e:
        raise UserError(
            "A fleet needs Dask, which is not installed.", 'pip install "nnjit-studio[fleet]"'
        ) from e
    if not place.scheduler:
        secret = Security.temporary()
        with (
            LocalCluster(
                n_workers=place.count, threads_per_worker=1, host="127.0.0.1",
                protocol="tls://", security=secret, dashboard_address="127.0.0.1:0",
                worker_dashboard_address=None, silence_logs=50,
                scheduler_kwargs={"dashboard": False},
            ) as cluster,
            Client(cluster, security=secret) as client,
        ):  # fmt: skip
            yield client
        return
    security = _security(place, Security)
    try:
        client = Client(place.scheduler, security=security, timeout=10)
    except (OSError, TimeoutError, ValueError) as e:
        raise UserError(
            f"No Dask scheduler answers at {place.scheduler}.",
            "Check the address and its TLS files.",
        ) from e
    with client:
        yield client


def _security(place: Place, make: Any) -> Any:
    """TLS as the files say; none only where nothing leaves this machine."""
    if place.scheduler.startswith("tls://"):
        if None in (place.ca, place.cert, place.key):
            raise UserError(
                "A scheduler over TLS needs three files.", "Give --ca, --cert and --key."
            )
        files = {
            "tls_ca_file": str(place.ca),
            "tls_client_cert": str(place.cert),
            "tls_client_key": str(place.key),
        }
        return make(require_encryption=True, **files)
    if not _is_here(urlsplit(place.scheduler).hostname or ""):
        raise UserError(
            "Models and code would cross a network without TLS.",
            "Start the scheduler with TLS and give tls://HOST:PORT.",
        )
    return None


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
