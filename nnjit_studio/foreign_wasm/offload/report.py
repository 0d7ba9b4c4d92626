"""What `nnjit offload` tells of a module: its loops, prices, counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nnjit_studio.compiler.wgsl.templates.rounded_product import ROUNDING
from nnjit_studio.foreign_wasm.offload.detect import Verdict
from nnjit_studio.foreign_wasm.offload.lift.refusal import REASONS
from nnjit_studio.support.tables import text_table

CHECKED_WITHIN = 4 * ROUNDING
"""What a result may be off, of itself plus the root mean square of all (guard.js)."""
Rows = Sequence[Mapping[str, Any]]


def loop_json(verdict: Verdict) -> dict[str, Any]:
    """A loop as scripts read it; ``price`` is filled in where it was measured."""
    found = verdict.found
    return {
        "function": verdict.function,
        "name": verdict.name,
        "loop": verdict.loop,
        "offset": verdict.offset,
        "verdict": "offload" if found else "stays",
        "pattern": verdict.pattern,
        "reason": verdict.reason,
        "text": verdict.text,
        "fingerprint": found.lowered.fingerprint if found else "",
        "flops": found.lowered.flops if found else 0,
        "price": None,
        "f16": None,
    }


def priced(loop: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """A loop with what the page measured of it."""
    (status,) = row["status"] or [{}]
    price = dict(status.get("price") or {}, loop=status.get("loopMs"), gpu=status.get("gpuMs"))
    stays = status.get("state") == "off"
    text = status.get("text") or _measured(price, row)
    verdict = {"verdict": "stays", "reason": status["reason"]} if stays else {}
    return {**loop, **verdict, "price": price, "wrong": row["wrong"], "text": text}


def _measured(price: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    if price["gpu"] is None:
        why = ", ".join(name for name, n in row["counters"]["fallback"].items() if n)
        return f"it never ran on the GPU: {why}"
    return f"the GPU takes {price['gpu']:.3f} ms, the loop {price['loop']:.3f} ms"


def priced_in_f16(loop: dict[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """A loop with what the page measured of the lab's kernel."""
    lab = priced({}, row)
    bound = f"operands rounded to f16, checked within {CHECKED_WITHIN:.1%}"
    return {**loop, "f16": {**lab, "text": f"{bound}: {lab['text']}"}}


def text(result: Mapping[str, Any], everything: bool) -> str:
    """The loops that are offloaded or were priced, and how many stay for which reason."""
    loops = result["loops"]
    shown = [x for x in loops if everything or x["pattern"]]
    head = ["function", "loop", "verdict", "MFLOP", "why"]
    rows = [
        [
            _name(loop),
            str(loop["loop"]),
            loop["pattern"] if loop["verdict"] == "offload" else "stays",
            f"{loop['flops'] / 1e6:.3g}" if loop["flops"] else "",
            _why(loop),
        ]
        for loop in shown
    ]
    parts = [text_table(head, rows)] if rows else []
    stays = Counter(x["reason"] for x in loops if not x["pattern"])
    found = sum(bool(x["pattern"]) for x in loops)
    parts.append(f"{len(loops)} loops, {found} of them can run on a GPU.")
    parts += [f"{n} stay: {reason}, {REASONS[reason]}" for reason, n in stays.most_common()]
    if metrics := result.get("metrics"):
        parts.append(metrics)
    return "\n".join(parts)


def _why(loop: Mapping[str, Any]) -> str:
    own = "" if loop["verdict"] == "offload" and not loop["price"] else str(loop["text"])
    return "; ".join(filter(None, (own, loop["f16"] and loop["f16"]["text"])))


def metrics(rows: Rows) -> str:
    """The counters of all cases together, as Prometheus text."""
    success = sum(r["counters"]["success"] for r in rows)
    fallback: Counter[str] = Counter()
    for row in rows:
        fallback.update(row["counters"]["fallback"])
    lines = [
        "# TYPE offload_success_total counter",
        f"offload_success_total {success}",
        "# TYPE offload_fallback_total counter",
        *(f'offload_fallback_total{{reason="{r}"}} {n}' for r, n in sorted(fallback.items())),
    ]
    return "\n".join(lines) + "\n"


def _name(loop: Mapping[str, Any]) -> str:
    name = str(loop["name"])
    return f"{loop['function']} {name[:40]}".strip()
