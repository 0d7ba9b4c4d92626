"""The files of a deployed bundle, asked for as a browser asks for them."""

from __future__ import annotations

import hashlib
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urljoin, urlsplit

import httpx2

from nnjit_studio.bundle.manifest import MANIFEST_FILE, BundleFile, Manifest, is_sealed
from nnjit_studio.errors import BundleError, UserError

TIMEOUT_S = 30.0
MANIFEST_LIMIT = 1 << 26
"""Bytes of a manifest; larger ones are none of ours."""
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Answer:
    """What the server sent for one address, after redirects."""

    url: str
    """Where the answer came from."""
    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    nbytes: int
    """Of the decoded body, as far as it was read."""
    sha256: str
    """Of the decoded body; empty where it was longer than the manifest says."""
    head: bytes
    """The first bytes of the body."""

    @property
    def media_type(self) -> str:
        """Of the Content-Type, without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True)
class Site:
    """A deployed bundle, and the page that uses it."""

    manifest_url: str
    page: Answer
    """The document whose visitor loads the bundle."""
    manifest_answer: Answer
    manifest: Manifest | None
    """None where the answer is no manifest."""
    problem: str = ""
    """Why it is none."""
    files: Mapping[str, Answer] = field(default_factory=dict)
    """By path in the bundle, every file of the manifest."""
    ranged: Answer | None = None
    """Answer to a request for the last byte of the first weights; None without weights."""

    def entries(self) -> dict[str, BundleFile]:
        """What the manifest says of each file."""
        return {file.file: file for file in self.manifest.files} if self.manifest else {}


def is_loopback(url: str) -> bool:
    """Whether browsers treat the address as this machine, and so as secure."""
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def visit(url: str, page: str = "", verify: bool = True) -> Site:
    """Ask for a bundle's manifest, all of its files and the page that uses it.

    Parameters
    ----------
    url
        Address of the manifest, or of its folder, ending in a slash.
    page
        Address of the page; the bundle's own ``index.html`` without one.
    verify
        Whether certificates of TLS are checked.

    Raises
    ------
    UserError
        When the address is none of http or https, or no server answers.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise UserError(
            f"{url} is not an address of http or https.",
            "Give one such as https://example.org/models/minilm/.",
        )
    manifest_url = url if url.endswith(".json") else urljoin(url.rstrip("/") + "/", MANIFEST_FILE)
    # a proxy of the environment is not what visitors meet
    with httpx2.Client(
        follow_redirects=True, timeout=TIMEOUT_S, verify=verify, trust_env=False
    ) as client:
        try:
            return _visit(client, manifest_url, page or urljoin(manifest_url, "index.html"))
        except (httpx2.HTTPError, httpx2.InvalidURL) as e:
            raise UserError(
                f"{url} does not answer: {e or type(e).__name__}.",
                "Check the address, and whether the server runs.",
            ) from e


def _visit(client: httpx2.Client, manifest_url: str, page_url: str) -> Site:
    page, _ = _ask(client, page_url, MANIFEST_LIMIT)
    answer, body = _ask(client, manifest_url, MANIFEST_LIMIT)
    try:
        manifest = Manifest.from_json(json.loads(body))
    except (ValueError, RecursionError) as e:
        return Site(manifest_url, page, answer, None, f"it is not JSON ({e})")
    except BundleError as e:
        return Site(manifest_url, page, answer, None, e.error)
    if not is_sealed(body):
        return Site(
            manifest_url, page, answer, None, "a byte of it was changed: its sha256 differs"
        )
    files = {
        f.file: _ask(client, urljoin(manifest_url, f.file), f.nbytes, keep=False)[0]
        for f in manifest.files
    }
    ranged = None
    first = manifest.weights[0]
    if first.nbytes:
        last = {"Range": f"bytes={first.nbytes - 1}-"}
        ranged, _ = _ask(client, urljoin(manifest_url, first.file), 1, headers=last)
    return Site(manifest_url, page, answer, manifest, "", files, ranged)


def _ask(
    client: httpx2.Client,
    url: str,
    limit: int,
    *,
    keep: bool = True,
    headers: Mapping[str, str] | None = None,
) -> tuple[Answer, bytes]:
    """One request; no more than ``limit`` bytes and one are taken of its body."""
    digest, kept, nbytes, head = hashlib.sha256(), bytearray(), 0, b""
    with client.stream("GET", url, headers=dict(headers or {})) as response:
        try:
            for chunk in response.iter_bytes(_CHUNK):
                nbytes += len(chunk)
                head = head or chunk[:512]
                if nbytes > limit:
                    break
                digest.update(chunk)
                if keep:
                    kept += chunk
        except httpx2.DecodingError:
            nbytes = -1  # it is not coded as its header says
        answer = Answer(
            str(response.url),
            response.status_code,
            {name.lower(): value for name, value in response.headers.items()},
            nbytes,
            digest.hexdigest() if 0 <= nbytes <= limit else "",
            head,
        )
    return answer, bytes(kept)
