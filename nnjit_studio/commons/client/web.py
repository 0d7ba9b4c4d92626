"""The two requests that a device makes, each because its user asked for it."""

from __future__ import annotations

from typing import Any

import httpx2
import msgspec

from nnjit_studio.commons.report import Place
from nnjit_studio.errors import CommonsError, UserError
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate

_SECONDS = 20.0
_MOST_BYTES = 8 << 20
_ASKED = ("primitives", "family", "device", "engine", "version", "tier", "threads", "compiler")


def send(server: str, data: bytes) -> bool:
    """Send a signed report; whether it was new there.

    Raises
    ------
    CommonsError
        With the server's sentence where it refuses.
    """
    headers = {"Content-Type": "application/json"}
    told = _request("POST", f"{server}/reports", content=data, headers=headers)
    return bool(told.get("new"))


def ask(server: str, home: Place) -> dict[tuple[str, str, str, str], list[AnyCandidate]]:
    """Candidates by kind, dims, dtype and layout, the most believed first.

    The question names the kind of device and no kernel. What comes back are settings, which are
    parsed here; what does not parse is left out.

    Raises
    ------
    CommonsError
    """
    asked = {name: str(getattr(home, name)) for name in _ASKED}
    told = _request("GET", f"{server}/kernels", params=asked)
    found: dict[tuple[str, str, str, str], list[AnyCandidate]] = {}
    try:
        for kernel in told["kernels"]:
            workload = tuple(str(kernel[n]) for n in ("kind", "dims", "dtype", "layout"))
            texts = [str(standing["settings"]) for standing in kernel["belief"]["best"][:5]]
            kind, dims, dtype, layout = workload
            found[kind, dims, dtype, layout] = [c for t in texts for c in _parsed(t)]
    except (KeyError, TypeError) as e:
        raise _no_answer(server) from e
    return found


def _parsed(text: str) -> list[AnyCandidate]:
    try:
        return [parse_candidate(text)] if len(text) <= 200 else []
    except UserError:
        return []


def _request(method: str, url: str, **given: Any) -> dict[str, Any]:
    server = url.rpartition("/")[0]
    try:
        with (
            httpx2.Client(timeout=_SECONDS, follow_redirects=False) as client,
            client.stream(method, url, **given) as response,
        ):
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > _MOST_BYTES:
                    raise _no_answer(server)
            told = msgspec.json.decode(bytes(data))
            right = response.status_code == 200
    except (httpx2.HTTPError, httpx2.InvalidURL) as e:
        raise CommonsError(
            f"The server {server} cannot be reached.", "Check the address and the network."
        ) from e
    except (msgspec.DecodeError, RecursionError) as e:
        raise _no_answer(server) from e
    if not isinstance(told, dict):
        raise _no_answer(server)
    if not right:
        raise CommonsError(str(told.get("error", ""))[:200], str(told.get("hint", ""))[:200])
    return told


def _no_answer(server: str) -> CommonsError:
    return CommonsError(f"The server {server} gave no answer of a commons.", "Check the address.")
