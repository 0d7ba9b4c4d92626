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

_NOT_THE_APP = (
    "Exclude the bundle's folder from the rule that answers every address with the app's page."
)
_JS = {"text/javascript", "application/javascript"}


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
    order = (BROKEN, SLOWER, NOTE).index
    found = [finding for rule in RULES for finding in rule(site)]
    return sorted(found, key=lambda finding: order(finding.severity))


def _manifest(site: Site) -> Iterator[Finding]:
    answer, effect = site.manifest_answer, "The model does not load."
    if answer.status != 200:
        yield Finding(
            "manifest-missing",
            BROKEN,
            f"{site.manifest_url} answers {answer.status}.",
            effect,
            "Upload the whole folder of the bundle.",
        )
    elif answer.media_type == "text/html" or answer.head.lstrip()[:1] == b"<":
        yield Finding(
            "manifest-is-a-page",
            BROKEN,
            f"{site.manifest_url} answers with an HTML page.",
            effect,
            _NOT_THE_APP,
        )
    elif site.manifest is None:
        yield Finding(
            "manifest-wrong",
            BROKEN,
            f"{site.manifest_url} is no manifest: {site.problem}",
            effect,
            "Upload the bundle again, byte for byte.",
        )


def _files(site: Site) -> Iterator[Finding]:
    for name, entry in site.entries().items():
        answer, effect = site.files[name], "The model does not load."
        if answer.status != 200:
            yield Finding(
                "file-missing",
                BROKEN,
                f"{name} answers {answer.status}.",
                effect,
                "Upload the whole bundle; some servers hide folders or kinds of files.",
            )
        elif answer.media_type == "text/html" and not name.endswith(".html"):
            yield Finding(
                "file-is-a-page",
                BROKEN,
                f"{name} answers with an HTML page.",
                effect,
                _NOT_THE_APP,
            )
        elif answer.nbytes < 0:
            yield Finding(
                "wrong-encoding",
                BROKEN,
                f"{name} is not coded as its Content-Encoding says.",
                effect,
                "Remove that header, or send the file as it says.",
            )
        elif answer.nbytes != entry.nbytes:
            size = "more" if answer.nbytes > entry.nbytes else f"{answer.nbytes}"
            yield Finding(
                "file-size",
                BROKEN,
                f"{name} has {size} bytes, its manifest says {entry.nbytes}.",
                effect,
                "Upload it again in binary mode, and let nothing minify it.",
            )
        elif answer.sha256 != entry.sha256:
            yield Finding(
                "file-changed",
                BROKEN,
                f"{name} is not the file of the manifest: its sha256 differs.",
                effect,
                "Upload it again in binary mode, and let nothing minify it.",
            )
        elif urlsplit(answer.url).netloc != urlsplit(site.manifest_url).netloc:
            yield Finding(
                "redirect",
                SLOWER,
                f"{name} is redirected to {urlsplit(answer.url).netloc}.",
                "Each file costs a connection, and workers refuse a script of another origin.",
                "Serve the files where the manifest lies.",
            )


def _scripts(site: Site) -> Iterator[Finding]:
    for name, answer in site.files.items():
        if (
            name.endswith(".js")
            and answer.status == 200
            and answer.media_type not in {*_JS, "text/html"}
        ):
            yield Finding(
                "script-type",
                BROKEN,
                f"{name} has the type {answer.media_type or 'none'}.",
                "Browsers refuse it as a module.",
                "Send .js files as text/javascript.",
            )


def _isolation(site: Site) -> Iterator[Finding]:
    if site.page.status != 200:
        return
    coop = site.page.headers.get("cross-origin-opener-policy", "")
    coep = site.page.headers.get("cross-origin-embedder-policy", "")
    effect = "One thread runs: the page is not cross-origin isolated."
    if coop != "same-origin":
        yield Finding(
            "coop",
            SLOWER,
            _has("Cross-Origin-Opener-Policy", coop),
            effect,
            "Send Cross-Origin-Opener-Policy: same-origin with the page.",
        )
    if coep not in ("require-corp", "credentialless"):
        yield Finding(
            "coep",
            SLOWER,
            _has("Cross-Origin-Embedder-Policy", coep),
            effect,
            "Send Cross-Origin-Embedder-Policy: require-corp with the page.",
        )
    if "cross-origin-isolated=()" in site.page.headers.get("permissions-policy", "").replace(
        " ", ""
    ):
        yield Finding(
            "isolation-forbidden",
            SLOWER,
            "The page's Permissions-Policy forbids cross-origin isolation.",
            effect,
            "Remove cross-origin-isolated=() from it.",
        )
    worker = site.files.get("engine/pool_worker.js")
    if (
        worker
        and worker.status == 200
        and coep in ("require-corp", "credentialless")
        and worker.headers.get("cross-origin-embedder-policy")
        not in ("require-corp", "credentialless")
    ):
        yield Finding(
            "worker-coep",
            BROKEN,
            "engine/pool_worker.js has no Cross-Origin-Embedder-Policy, the page has one.",
            "The threads do not start.",
            "Send both headers with every file, not with the page alone.",
        )


def _has(header: str, value: str) -> str:
    return f"The page has {header}: {value}." if value else f"The page has no {header}."


def _origins(site: Site) -> Iterator[Finding]:
    page, bundle = urlsplit(site.page.url), urlsplit(site.manifest_url)
    if (page.scheme, page.netloc) != (bundle.scheme, bundle.netloc):
        if (
            page.scheme == "https"
            and bundle.scheme == "http"
            and not is_loopback(site.manifest_url)
        ):
            yield Finding(
                "mixed-content",
                BROKEN,
                "The page is https, the bundle http.",
                "Browsers block the bundle.",
                "Serve the bundle over https.",
            )
        allowed = site.manifest_answer.headers.get("access-control-allow-origin", "")
        if allowed not in ("*", f"{page.scheme}://{page.netloc}"):
            yield Finding(
                "cors",
                BROKEN,
                f"The bundle's server does not allow {page.scheme}://{page.netloc} to read it.",
                "The model does not load.",
                f"Send Access-Control-Allow-Origin: {page.scheme}://{page.netloc} with every file.",
            )
    if page.scheme == "http" and not is_loopback(site.page.url):
        yield Finding(
            "no-tls",
            SLOWER,
            "The page is not https.",
            "No threads, WebGPU or Cache API: browsers allow them in secure contexts only.",
            "Serve the page over https.",
        )


def _policy(site: Site) -> Iterator[Finding]:
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
        yield Finding(
            "csp-wasm",
            BROKEN,
            "The page's Content-Security-Policy forbids Wasm.",
            "Kernels do not compile.",
            "Add 'wasm-unsafe-eval' to script-src.",
        )
    for rule, names, what in (
        (
            "csp-worker",
            ("worker-src", "child-src", "script-src", "default-src"),
            "workers of its own origin",
        ),
        ("csp-connect", ("connect-src", "default-src"), "requests to the bundle"),
    ):
        allowed = sources(*names)
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(site.manifest_url))
        if allowed is not None and not {"'self'", "*", "https:", origin} & set(allowed):
            effect = (
                "The threads do not start." if rule == "csp-worker" else "The model does not load."
            )
            yield Finding(
                rule,
                BROKEN,
                f"The page's Content-Security-Policy forbids {what}.",
                effect,
                f"Add 'self' to {names[0]}.",
            )


def _transfer(site: Site) -> Iterator[Finding]:
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
        yield Finding(
            "no-compression",
            SLOWER,
            f"{plain[0]}{more} come without compression.",
            "Plans and scripts take about four times the bytes.",
            "Compress .js and .json with gzip or Brotli.",
        )
    weights = site.manifest and site.manifest.weights[0]
    if (
        weights
        and site.ranged is not None
        and site.ranged.status != 206
        and site.files[weights.file].sha256 == weights.sha256
    ):
        yield Finding(
            "no-ranges",
            NOTE,
            "The server answers no requests for a part of a file.",
            "A download that is cut begins again.",
            "Serve the weights as a static file.",
        )


def _caching(site: Site) -> Iterator[Finding]:
    if _max_age(site.manifest_answer) > DAY_S:
        yield Finding(
            "manifest-cached",
            NOTE,
            "The manifest may be kept for more than a day.",
            "Visitors get a new version late.",
            "Send Cache-Control: no-cache with manifest.json.",
        )
    weights = site.manifest and site.files.get(site.manifest.weights[0].file)
    if weights and "no-store" in weights.headers.get("cache-control", ""):
        yield Finding(
            "no-store",
            SLOWER,
            "The weights may not be kept: Cache-Control is no-store.",
            "Every visit downloads them again.",
            "Send Cache-Control: no-cache, which asks whether a file has changed.",
        )


def _max_age(answer: Answer) -> float:
    control = answer.headers.get("cache-control", "")
    found = re.search(r"max-age=(\d+)", control)
    return float("inf") if "immutable" in control else float(found[1]) if found else 0.0


RULES: tuple[Callable[[Site], Iterator[Finding]], ...] = (
    _manifest, _files, _scripts, _isolation, _origins, _policy, _transfer, _caching,
)  # fmt: skip
