"""Planted mistakes of a deployment are found, each by its name; a right one has none."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nnjit_studio.doctor.deployment.hosts import header_lines
from nnjit_studio.doctor.deployment.rules import findings
from nnjit_studio.doctor.deployment.server import application, unpacked
from nnjit_studio.doctor.deployment.visit import visit
from nnjit_studio.engine.hub.hub import listening_socket
from nnjit_studio.errors import UserError

SCRIPT = b"export const x = 1; // " + b"a" * 20_000
FILES = {
    "plan.json": b'{"steps": [' + b"1, " * 10_000 + b"1]}",
    "weights.bin": bytes(range(256)) * 16,
    "engine/pool_worker.js": SCRIPT,
    "nnjit.js": SCRIPT[:-1],
    "kernels/a.wasm": b"\0asm\1\0\0\0",
}
Change = Callable[[str, dict[str, str]], Mapping[str, object] | None]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    for name, contents in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(contents)
    entry = {
        name: {"file": name, "sha256": hashlib.sha256(data).hexdigest(), "nbytes": len(data)}
        for name, data in FILES.items()
    }
    kernel = {"workload": "w", "settings": "s", "tiers": {"simd128": entry["kernels/a.wasm"]}}
    manifest = {
        "format": "nnjit-bundle", "version": 1, "name": "m", "generator": "g",
        "created": "2026-01-01T00:00:00Z", "plan": entry["plan.json"],
        "weights": entry["weights.bin"], "kernels": [kernel],
        "engine": [entry["engine/pool_worker.js"], entry["nnjit.js"]],
        "inputs": [], "outputs": [], "tuned_on": {},
    }  # fmt: skip
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "index.html").write_text("<!doctype html><p>page")
    return tmp_path


class Changed:
    """A site whose answers somebody changes: status, headers, body by path."""

    def __init__(self, app: ASGIApp, change: Change) -> None:
        self.app, self.change = app, change

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[str, str] = {}
        planted = self.change(scope["path"], headers) or {}
        if "body" in planted or "status" in planted:
            answer = Response(
                planted.get("body", b""), int(str(planted.get("status", 200))), headers
            )
            await answer(scope, receive, send)
            return
        if planted.get("whole"):
            kept = [(name, value) for name, value in scope["headers"] if name != b"range"]
            scope = {**scope, "headers": kept}

        async def changed(message: Message) -> None:
            if message["type"] == "http.response.start":
                mine = {name.lower() for name in headers}
                rest = [(n, v) for n, v in message["headers"] if n.decode().lower() not in mine]
                new = [(n.encode(), v.encode()) for n, v in headers.items() if v]
                message = {**message, "headers": rest + new}
            await send(message)

        await self.app(scope, receive, changed)


@contextmanager
def served(folder: Path, change: Change) -> Iterator[str]:
    listener = listening_socket()
    app = Changed(application(folder), change)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def only(name: str, /, **planted: object) -> Change:
    """A change of the files that end so; names of headers are those of the keyword's dict."""

    def change(path: str, headers: dict[str, str]) -> Mapping[str, object] | None:
        if not path.endswith(name):
            return None
        headers.update(planted.get("headers", {}))  # type: ignore[arg-type]
        return planted

    return change


def header(name: str, value: str, where: str = "") -> Change:
    return only(where, headers={name: value})


HTML = {"body": b"<!doctype html>", "headers": {"content-type": "text/html"}}
CSP = "content-security-policy"
PLANTED: dict[str, tuple[str, Change]] = {
    "no manifest": ("manifest-missing", only("manifest.json", status=404)),
    "an app's page for the manifest": ("manifest-is-a-page", only("manifest.json", **HTML)),
    "a cut manifest": ("manifest-wrong", only("manifest.json", body=b'{"format": "nnjit')),
    "another version": (
        "manifest-wrong",
        only("manifest.json", body=b'{"format": "nnjit-bundle", "version": 9}'),
    ),
    "kernels left out": ("file-missing", only("a.wasm", status=404)),
    "a hidden folder": ("file-missing", only("pool_worker.js", status=403)),
    "an app's page for a kernel": ("file-is-a-page", only("a.wasm", **HTML)),
    "cut weights": ("file-size", only("weights.bin", body=FILES["weights.bin"][:-9])),
    "a script that was minified": (
        "file-size",
        only("nnjit.js", body=b"export{}", headers={"content-type": "text/javascript"}),
    ),
    "line ends that were changed": (
        "file-changed",
        only("weights.bin", body=FILES["weights.bin"][::-1]),
    ),
    "encoded without being it": (
        "wrong-encoding",
        only("plan.json", body=FILES["plan.json"], headers={"content-encoding": "gzip"}),
    ),
    "scripts as plain text": ("script-type", header("content-type", "text/plain", ".js")),
    "no opener policy": ("coop", header("cross-origin-opener-policy", "")),
    "an opener policy for pop-ups": (
        "coop",
        header("cross-origin-opener-policy", "same-origin-allow-popups"),
    ),
    "no embedder policy": ("coep", header("cross-origin-embedder-policy", "")),
    "headers with the page alone": (
        "worker-coep",
        header("cross-origin-embedder-policy", "", ".js"),
    ),
    "isolation that is forbidden": (
        "isolation-forbidden",
        header("permissions-policy", "cross-origin-isolated=()"),
    ),
    "a policy without Wasm": ("csp-wasm", header(CSP, "default-src 'self'")),
    "a policy without workers": ("csp-worker", header(CSP, "worker-src 'none'")),
    "a policy without requests": ("csp-connect", header(CSP, "connect-src https://api.example")),
    "nothing compressed": (
        "no-compression",
        only("plan.json", body=FILES["plan.json"], headers={"content-type": "application/json"}),
    ),
    "no parts of files": ("no-ranges", only("weights.bin", whole=True)),
    "a manifest for a year": (
        "manifest-cached",
        header("cache-control", "max-age=31536000", "manifest.json"),
    ),
    "weights that are not kept": ("no-store", header("cache-control", "no-store", "weights.bin")),
}


@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_found(mistake: str, site: Path) -> None:
    rule, change = PLANTED[mistake]
    with served(site, change) as url:
        found = findings(visit(url))
    assert [finding.rule for finding in found] == [rule] * len(found) and found


def test_a_right_deployment_has_no_finding(site: Path) -> None:
    with served(site, lambda *_: None) as url:
        assert findings(visit(url)) == findings(visit(url + "manifest.json")) == []


def test_a_page_of_another_origin(site: Path) -> None:
    with served(site, lambda *_: None) as url, served(site, lambda *_: None) as page:
        assert [f.rule for f in findings(visit(url, f"{page}index.html"))] == ["cors"]
    with (
        served(site, header("access-control-allow-origin", "*")) as url,
        served(site, lambda *_: None) as page,
    ):
        assert findings(visit(url, f"{page}index.html")) == []


def test_what_cannot_be_checked_is_an_error_of_the_user(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not answer"):
        visit("http://127.0.0.1:9/")
    with pytest.raises(UserError, match="not an address of http"):
        visit("ftp://127.0.0.1/")
    with pytest.raises(UserError, match=r"holds no manifest\.json"), unpacked(tmp_path):
        pass


def test_every_host_gets_the_two_headers() -> None:
    lines = header_lines()
    assert len(lines) == 6
    for name, text in lines.items():
        assert name == "github" or ("Cross-Origin-Opener-Policy" in text and "require-corp" in text)
