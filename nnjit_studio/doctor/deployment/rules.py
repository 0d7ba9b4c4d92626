"""Mistakes of a deployment: each rule looks at the answers of a server and names what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from nnjit_studio.doctor.deployment.visit import Answer, Site, is_loopback

BROKEN, SLOWER, NOTE = "broken", "slower", "note"
LARGE_TEXT = 10_000
"""Bytes of a script or a plan from which compression is worth a header."""
DAY_S = 86_400

_JS = {"text/javascript", "application/javascript"}
_ISOLATING = ("require-corp", "credentialless")
_NO_MODEL = "The model does not load."
_NO_THREADS = "The threads do not start."
_ONE_THREAD = "One thread runs: the page is not cross-origin isolated."
_NOT_THE_APP = (
    "Exclude the bundle's folder from the rule that answers every address with the app's page."
)
_IN_BINARY = "Upload it again in binary mode, and let nothing minify it."

MISTAKES = {
    "manifest-missing": (BROKEN, _NO_MODEL, "Upload the whole folder of the bundle."),
    "manifest-is-a-page": (BROKEN, _NO_MODEL, _NOT_THE_APP),
    "manifest-wrong": (BROKEN, _NO_MODEL, "Upload the bundle again, byte for byte."),
    "file-missing": (
        BROKEN,
        _NO_MODEL,
        "Upload the whole bundle; some servers hide folders or kinds of files.",
    ),
    "file-is-a-page": (BROKEN, _NO_MODEL, _NOT_THE_APP),
    "wrong-encoding": (BROKEN, _NO_MODEL, "Remove that header, or send the file as it says."),
    "file-size": (BROKEN, _NO_MODEL, _IN_BINARY),
    "file-changed": (BROKEN, _NO_MODEL, _IN_BINARY),
    "redirect": (
        SLOWER,
        "Each file costs a connection, and workers refuse a script of another origin.",
        "Serve the files where the manifest lies.",
    ),
    "script-type": (
        BROKEN,
        "Browsers refuse it as a module.",
        "Send .js files as text/javascript.",
    ),
    "coop": (SLOWER, _ONE_THREAD, "Send Cross-Origin-Opener-Policy: same-origin with the page."),
    "coep": (SLOWER, _ONE_THREAD, "Send Cross-Origin-Embedder-Policy: require-corp with the page."),
    "isolation-forbidden": (SLOWER, _ONE_THREAD, "Remove cross-origin-isolated=() from it."),
    "worker-coep": (
        BROKEN,
        _NO_THREADS,
        "Send both headers with every file, not with the page alone.",
    ),
    "mixed-content": (BROKEN, "Browsers block the bundle.", "Serve the bundle over https."),
    "cors": (BROKEN, _NO_MODEL, "Send Access-Control-Allow-Origin: {page} with every file."),
    "no-tls": (
        SLOWER,
        "No threads, WebGPU or Cache API: browsers allow them in secure contexts only.",
        "Serve the page over https.",
    ),
    "csp-wasm": (BROKEN, "Kernels do not compile.", "Add 'wasm-unsafe-eval' to script-src."),
    "csp-worker": (BROKEN, _NO_THREADS, "Add 'self' to worker-src."),
    "csp-connect": (BROKEN, _NO_MODEL, "Add 'self' to connect-src."),
    "no-compression": (
        SLOWER,
        "Plans and scripts take about four times the bytes.",
        "Compress .js and .json with gzip or Brotli.",
    ),
    "no-ranges": (
        NOTE,
        "A download that is cut begins again.",
        "Serve the weights as a static file.",
    ),
    "manifest-cached": (
        NOTE,
        "Visitors get a new version late.",
        "Send Cache-Control: no-cache with manifest.json.",
    ),
    "no-store": (
        SLOWER,
        "Every visit downloads them again.",
        "Send Cache-Control: no-cache, which asks whether a file has changed.",
    ),
}
"""By rule: how bad it is, what a visitor gets of it, the next step; ``{page}`` is its origin."""

Found = Iterator[tuple[str, str]]
"""Names of rules, and what the server does, each in a sentence."""


@dataclass(frozen=True)
class Finding:
    """A mistake: ``severity`` is ``broken``, ``slower`` or ``note``."""

    rule: str
    severity: str
    found: str
    """What the server does: one sentence."""
    effect: str
    """What a visitor gets of it: one sentence."""
    next_step: str


def findings(site: Site) -> list[Finding]:
    """All mistakes, the worst first."""
    found = [_finding(site, *told) for rule in RULES for told in rule(site)]
    return sorted(found, key=lambda finding: (BROKEN, SLOWER, NOTE).index(finding.severity))


def _finding(site: Site, rule: str, found: str) -> Finding:
    severity, effect, step = MISTAKES[rule]
    return Finding(rule, severity, found, effect, step.format(page=_origin(site.page.url)))


def _origin(url: str) -> str:
    return "{0.scheme}://{0.netloc}".format(urlsplit(url))


def _manifest(site: Site) -> Found:
    answer, url = site.manifest_answer, site.manifest_url
    if answer.status != 200:
        yield "manifest-missing", f"{url} answers {answer.status}."
    elif answer.media_type == "text/html" or answer.head.lstrip()[:1] == b"<":
        yield "manifest-is-a-page", f"{url} answers with an HTML page."
    elif site.manifest is None:
        yield "manifest-wrong", f"{url} is no manifest: {site.problem}"


def _files(site: Site) -> Found:
    for name, entry in site.entries().items():
        answer = site.files[name]
        host = urlsplit(answer.url).netloc
        if answer.status != 200:
            yield "file-missing", f"{name} answers {answer.status}."
        elif answer.media_type == "text/html" and not name.endswith(".html"):
            yield "file-is-a-page", f"{name} answers with an HTML page."
        elif answer.nbytes < 0:
            yield "wrong-encoding", f"{name} is not coded as its Content-Encoding says."
        elif answer.nbytes != entry.nbytes:
            size = "more" if answer.nbytes > entry.nbytes else f"{answer.nbytes}"
            yield "file-size", f"{name} has {size} bytes, its manifest says {entry.nbytes}."
        elif answer.sha256 != entry.sha256:
            yield "file-changed", f"{name} is not the file of the manifest: its sha256 differs."
        elif host != urlsplit(site.manifest_url).netloc:
            yield "redirect", f"{name} is redirected to {host}."


def _scripts(site: Site) -> Found:
    for name, answer in site.files.items():
        wrong = answer.status == 200 and answer.media_type not in {*_JS, "text/html"}
        if name.endswith(".js") and wrong:
            yield "script-type", f"{name} has the type {answer.media_type or 'none'}."


def _isolation(site: Site) -> Found:
    if site.page.status != 200:
        return
    coop, coep, permissions = (
        site.page.headers.get(name, "")
        for name in (
            "cross-origin-opener-policy",
            "cross-origin-embedder-policy",
            "permissions-policy",
        )
    )
    if coop != "same-origin":
        yield "coop", _has("Cross-Origin-Opener-Policy", coop)
    if coep not in _ISOLATING:
        yield "coep", _has("Cross-Origin-Embedder-Policy", coep)
    if "cross-origin-isolated=()" in permissions.replace(" ", ""):
        text = "The page's Permissions-Policy forbids cross-origin isolation."
        yield "isolation-forbidden", text
    worker = site.files.get("engine/pool_worker.js")
    there = worker.headers if worker and worker.status == 200 and coep in _ISOLATING else None
    if there is not None and there.get("cross-origin-embedder-policy") not in _ISOLATING:
        text = "engine/pool_worker.js has no Cross-Origin-Embedder-Policy, the page has one."
        yield "worker-coep", text


def _has(header: str, value: str) -> str:
    return f"The page has {header}: {value}." if value else f"The page has no {header}."


def _origins(site: Site) -> Found:
    page, bundle = _origin(site.page.url), _origin(site.manifest_url)
    if page != bundle:
        plain = bundle.startswith("http:") and not is_loopback(site.manifest_url)
        if page.startswith("https:") and plain:
            yield "mixed-content", "The page is https, the bundle http."
        allowed = site.manifest_answer.headers.get("access-control-allow-origin", "")
        if allowed not in ("*", page):
            yield "cors", f"The bundle's server does not allow {page} to read it."
    if page.startswith("http:") and not is_loopback(site.page.url):
        yield "no-tls", "The page is not https."


def _policy(site: Site) -> Found:
    policy = site.page.headers.get("content-security-policy", "")
    rules = {
        name.lower(): sources.split()
        for name, *rest in (part.split(None, 1) for part in policy.split(";") if part.strip())
        for sources in (rest or [""])
    }

    def sources(*names: str) -> list[str] | None:
        return next((rules[name] for name in names if name in rules), None)

    scripts = sources("script-src", "default-src")
    if scripts is not None and not {"'wasm-unsafe-eval'", "'unsafe-eval'"} & set(scripts):
        yield "csp-wasm", "The page's Content-Security-Policy forbids Wasm."
    workers = ("worker-src", "child-src", "script-src", "default-src")
    for rule, names, what in (
        ("csp-worker", workers, "workers of its own origin"),
        ("csp-connect", ("connect-src", "default-src"), "requests to the bundle"),
    ):
        allowed = sources(*names)
        own = {"'self'", "*", "https:", _origin(site.manifest_url)}
        if allowed is not None and not own & set(allowed):
            yield rule, f"The page's Content-Security-Policy forbids {what}."


def _transfer(site: Site) -> Found:
    plain = [
        name
        for name, entry in site.entries().items()
        if name.endswith((".js", ".json"))
        and entry.nbytes >= LARGE_TEXT
        and "content-encoding" not in site.files[name].headers
        and site.files[name].sha256 == entry.sha256
    ]
    if plain:
        more = f" and {len(plain) - 1} more" if len(plain) > 1 else ""
        yield "no-compression", f"{plain[0]}{more} come without compression."
    weights = site.manifest and site.manifest.weights[0]
    whole = site.ranged is not None and site.ranged.status != 206
    if weights and whole and site.files[weights.file].sha256 == weights.sha256:
        yield "no-ranges", "The server answers no requests for a part of a file."


def _caching(site: Site) -> Found:
    if _max_age(site.manifest_answer) > DAY_S:
        yield "manifest-cached", "The manifest may be kept for more than a day."
    weights = site.manifest and site.files.get(site.manifest.weights[0].file)
    if weights and "no-store" in weights.headers.get("cache-control", ""):
        yield "no-store", "The weights may not be kept: Cache-Control is no-store."


def _max_age(answer: Answer) -> float:
    control = answer.headers.get("cache-control", "")
    found = re.search(r"max-age=(\d+)", control)
    return float("inf") if "immutable" in control else float(found[1]) if found else 0.0


RULES: tuple[Callable[[Site], Found], ...] = (
    _manifest, _files, _scripts, _isolation, _origins, _policy, _transfer, _caching,
)  # fmt: skip
