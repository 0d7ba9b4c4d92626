"""The headers of a deployed bundle, as each common host wants them written."""

from __future__ import annotations

import json
from collections.abc import Mapping

HEADERS: Mapping[str, str] = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
"""Of every file: threads need the first two, and a browser that asks again each time gets a short
answer where nothing changed."""

_GITHUB = """\
GitHub Pages sends no headers of yours. One thread runs there. A service worker that adds the first
two headers to every answer makes the page isolated, at the price of a reload on the first visit."""


def header_lines() -> dict[str, str]:
    """What to copy, by the name of the host."""
    pairs = HEADERS.items()
    plain = "\n".join(f"  {name}: {value}" for name, value in pairs)
    vercel = [{"key": name, "value": value} for name, value in pairs]
    return {
        "nginx": "\n".join(f'add_header {name} "{value}" always;' for name, value in pairs)
        + "\ngzip on;\ngzip_types text/javascript application/json;",
        "apache": "\n".join(f'Header always set {name} "{value}"' for name, value in pairs)
        + "\nAddType text/javascript .js"
        + "\nAddOutputFilterByType DEFLATE text/javascript application/json",
        "caddy": "header {\n"
        + "\n".join(f'  {name} "{value}"' for name, value in pairs)
        + "\n}\nencode zstd gzip",
        "cloudflare, netlify": f"# file _headers\n/*\n{plain}",
        "vercel": "// file vercel.json\n"
        + json.dumps({"headers": [{"source": "/(.*)", "headers": vercel}]}, indent=2),
        "github": _GITHUB,
    }
