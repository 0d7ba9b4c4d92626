"""A plain static server for bundles, with one address where a test page reports."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args: Any, isolated: bool, reports: queue.Queue[Any], **kw: Any) -> None:
        self.isolated = isolated
        self.reports = reports
        super().__init__(*args, **kw)

    def end_headers(self) -> None:
        if self.isolated:
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

    def handle(self) -> None:
        # A browser that is killed at the end drops its connections.
        with contextlib.suppress(ConnectionResetError):
            super().handle()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.reports.put(json.loads(body))
        self.send_response(204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def serve(folder: Path, isolated: bool) -> Iterator[tuple[str, queue.Queue[Any]]]:
    """Serve a folder on loopback; yields its address and the queue of what pages post."""
    reports: queue.Queue[Any] = queue.Queue()
    handler = partial(_Handler, directory=str(folder), isolated=isolated, reports=reports)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", reports
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
