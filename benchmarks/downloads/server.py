"""A server of one bundle and of the engine whose connections end, whose files change."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("page.js")


@dataclass
class Site:
    """What the server does; ``cuts`` are bytes of the bundle after which a connection ends."""

    bundle: Path
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    change: Callable[[str, bytes], bytes] = lambda name, content: content
    after_requests: tuple[int, Path] | None = None
    sent: int = 0
    made: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def content(self, name: str) -> bytes | None:
        """A file of the bundle, or of the engine."""
        folder, _, rest = name.partition("/")
        root = {"bundle": self.bundle, "resources": ROOT / "resources"}.get(folder)
        path = root and root / rest
        if name == "index.html":
            return b"<!doctype html>"
        if name == "page.js":
            return PAGE.read_bytes()
        if path is None or not path.is_file():
            return None
        content = path.read_bytes()
        return self.change(rest, content) if folder == "bundle" else content

    def allowed(self, wanted: int) -> int:
        """How many bytes are sent before the connection ends."""
        with self.lock:
            if self.cuts and self.sent + wanted > self.cuts[0]:
                self.made += 1
                wanted = max(0, self.cuts.pop(0) - self.sent)
            self.sent += wanted
            return wanted

    def asked(self) -> None:
        """Exchanges the bundle when its time has come."""
        with self.lock:
            if self.after_requests is None:
                return
            left, other = self.after_requests
            self.after_requests = (left - 1, other) if left else None
            if not left:
                self.bundle = other


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *given: Any, site: Site) -> None:
        self.site = site
        super().__init__(*given)

    def do_GET(self) -> None:
        name = self.path.partition("?")[0].strip("/")
        is_bundle = name.startswith("bundle/")
        if is_bundle:
            self.site.asked()
        content = self.site.content(name)
        if content is None:
            self.send_error(404)
            return
        found = re.match(r"bytes=(\d+)-$", self.headers.get("Range", ""))
        begin = int(found[1]) if found and self.site.ranges else 0
        self.send_response(206 if begin else 200)
        if begin:
            self.send_header("Content-Range", f"bytes {begin}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Type", guess_type(name)[0] or "text/html")
        self.send_header("Content-Length", str(len(content) - begin))
        self.send_header("Cache-Control", "no-cache")
        self.end_headers()
        rest = content[begin:]
        most = self.site.allowed(len(rest)) if is_bundle else len(rest)
        self.wfile.write(rest[:most])
        self.close_connection = most < len(rest)

    def log_message(self, format: str, *given: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that has seen enough leaves connections open."""


@contextmanager
def served(site: Site) -> Iterator[str]:
    server = Server(("127.0.0.1", 0), partial(Handler, site=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
    finally:
        server.shutdown()
        server.server_close()
