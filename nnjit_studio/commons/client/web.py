"""The two requests that a device makes, each because its user asked for it."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from nnjit_studio.commons.report.document import HOME, Place
from nnjit_studio.commons.rule.extended import TRUSTED_SCORE, least_kept
from nnjit_studio.errors import CommonsError, UserError
from nnjit_studio.records.gpu_candidate import AnyCandidate, parse_candidate

_SECONDS = 20.0
_MOST_BYTES = 8 << 20


def send(server: str, data: bytes) -> bool:
    """Send a signed report; whether it was new there.

    Raises
    ------
    CommonsError
        With the server's sentence where it refuses.
    """
    headers = {"Content-Type": "application/json"}
    told = request("POST", f"{server}/reports", content=data, headers=headers)
    return bool(told.get("new"))


@dataclass(frozen=True)
class Believed:
    """A candidate that the crowd stands for."""

    candidate: AnyCandidate
    enough: float | None
    """Speed-up over the default here with which it keeps its promise, so that no search is needed;
    None where the promise was made for the family alone, or by too few votes."""


def ask(server: str, home: Place) -> dict[tuple[str, str, str, str], list[Believed]]:
    """What is believed by kind, dims, dtype and layout, the most believed first.

    The question names the kind of device and no kernel. What comes back are settings, which are
    parsed here; what does not parse is left out.

    Raises
    ------
    CommonsError
    """
    found: dict[tuple[str, str, str, str], list[Believed]] = {}
    for told in ask_all(server, home):
        if told.believed:
            found.setdefault(told.workload, []).extend(_parsed(told))
    return found


@dataclass(frozen=True)
class Told:
    """Settings that a server tells of one kernel, with what stands behind them."""

    workload: tuple[str, str, str, str]
    """Kind, dims, dtype and layout."""
    settings: str
    speedup: float
    """Over each reporter's own default, in the middle of them."""
    score: float
    """Share of the ranked votes, 0 to 1."""
    sources: int
    """Independent ones that name these settings."""
    heard: int
    """Independent ones that said anything of this kernel."""
    dissent: float
    """Share of their voices that the rest does not agree with, 0 to 1."""
    of_family: bool
    """Whether the whole family of such devices was asked, for there are too few of this kind."""
    believed: bool = True
    """Else they are only worth a try."""


def ask_all(server: str, home: Place) -> list[Told]:
    """All that a server tells of this kind of device, the most believed first for each kernel.

    The question names the kind of device and no kernel.

    Raises
    ------
    CommonsError
    """
    asked = {name: str(getattr(home, name)) for name in HOME}
    answer = request("GET", f"{server}/kernels", params=asked)
    try:
        return [told for kernel in answer["kernels"] for told in _told(kernel)]
    except (KeyError, TypeError, ValueError) as e:
        raise no_answer(server) from e


def _told(kernel: dict[str, Any]) -> Iterator[Told]:
    kind, dims, dtype, layout = (str(kernel[n]) for n in ("kind", "dims", "dtype", "layout"))
    belief = kernel["belief"]
    for believed, name in ((True, "best"), (False, "challengers")):
        for standing in belief.get(name, ())[:5]:
            yield Told(
                (kind, dims, dtype, layout), str(standing["settings"]),
                float(standing["speedup"]), float(standing["score"]), int(standing["sources"]),
                int(belief["sources"]), float(belief["dissent"]), bool(belief["of_family"]),
                believed,
            )  # fmt: skip


def _parsed(told: Told) -> list[Believed]:
    trusted = told.score >= TRUSTED_SCORE and not told.of_family
    try:
        candidate = parse_candidate(told.settings) if len(told.settings) <= 200 else None
    except UserError:
        return []
    if candidate is None:
        return []
    return [Believed(candidate, least_kept(told.speedup) if trusted else None)]


def request(method: str, url: str, **given: Any) -> dict[str, Any]:
    import httpx2

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
                    raise no_answer(server)
            told = msgspec.json.decode(bytes(data))
            right = response.status_code == 200
    except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError) as e:
        raise _no_contact(server, str(e)) from e
    except (msgspec.DecodeError, RecursionError) as e:
        raise no_answer(server) from e
    if not isinstance(told, dict):
        raise no_answer(server)
    if not right:
        raise CommonsError(str(told.get("error", ""))[:200], str(told.get("hint", ""))[:200])
    return told


def _no_contact(server: str, why: str) -> CommonsError:
    if "CERTIFICATE" in why:
        return CommonsError(
            f"The certificate of {server} cannot be trusted.",
            "Ask who runs it; the variable SSL_CERT_FILE names a file of certificates to trust.",
        )
    return CommonsError(
        f"The server {server} cannot be reached.", "Check the address and the network."
    )


def no_answer(server: str) -> CommonsError:
    return CommonsError(f"The server {server} gave no answer of a commons.", "Check the address.")
