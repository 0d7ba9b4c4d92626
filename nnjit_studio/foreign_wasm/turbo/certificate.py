"""The certificate: what was changed in a module, why, and on what evidence."""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nnjit_studio import __version__
from nnjit_studio.foreign_wasm.turbo.candidates import Candidate
from nnjit_studio.foreign_wasm.turbo.gate.engines import Engine
from nnjit_studio.foreign_wasm.turbo.gate.gate import Settings, Tried
from nnjit_studio.foreign_wasm.turbo.gate.pairs import Executed
from nnjit_studio.foreign_wasm.turbo.licence import Licence
from nnjit_studio.foreign_wasm.turbo.loops.schedule import peak_of
from nnjit_studio.foreign_wasm.turbo.loops.variants import FMA


@dataclass(frozen=True)
class Evidence:
    """Everything that was measured.

    Attributes
    ----------
    tried
        Every body in the first run of the gate.
    plain, relaxed
        The bodies that are kept in each module, as they were measured again.
    executed
        Whole functions before and after, of the bit-identical module.
    """

    candidates: Sequence[Candidate]
    tried: Sequence[Tried]
    plain: Mapping[tuple[int, int], Tried]
    relaxed: Mapping[tuple[int, int], Tried]
    executed: Sequence[Executed]


@dataclass(frozen=True)
class File:
    """A file that the certificate names."""

    file: str
    nbytes: int
    sha256: str

    @staticmethod
    def of(name: str, data: bytes) -> File:
        return File(name, len(data), hashlib.sha256(data).hexdigest())

    def to_json(self) -> dict[str, Any]:
        return {"file": self.file, "bytes": self.nbytes, "sha256": self.sha256}


def certificate(
    names: Mapping[int, str],
    files: Mapping[str, File],
    licence: Licence,
    engine: Engine,
    registers: int,
    settings: Settings,
    evidence: Evidence,
) -> dict[str, Any]:
    """The document; ``names`` are those of functions, ``files`` input, out and out_relaxed."""
    return {
        "tool": f"nnjit-studio {__version__}",
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        **{role: file.to_json() for role, file in files.items()},
        "licence": licence.to_json(),
        "engine": {"version": engine.version, "kind": engine.kind, "vector_registers": registers},
        "settings": asdict(settings),
        "functions": functions(names, evidence),
    }


def functions(names: Mapping[int, str], evidence: Evidence) -> list[dict[str, Any]]:
    """A row for each function that has a loop with other bodies."""
    runs = {row.index: row for row in evidence.executed}
    rows = []
    for candidate in evidence.candidates:
        index = candidate.function.index
        mine = [t for t in evidence.tried if t.function == index]
        kept = [t for (function, _), t in evidence.plain.items() if function == index]
        relaxed = [t for (function, _), t in evidence.relaxed.items() if function == index]
        best = _fastest(relaxed or kept or mine)
        rows.append(
            {
                "index": index,
                "name": names.get(index, ""),
                "pass": best.variant.passed,
                "gain": best.gain.median if best.gain else None,
                "kept": bool(kept or relaxed),
                "proof": "value graphs are equal" if kept or relaxed else "",
                "executed": asdict(runs[index]) if index in runs else None,
                "loops": [_loop(loop.first, mine, kept, relaxed) for loop, _ in candidate.loops],
            }
        )
    return rows


def _fastest(tried: Sequence[Tried]) -> Tried:
    return max(tried, key=lambda t: t.gain.median if t.gain else 0.0)


def _loop(
    first: int, tried: Sequence[Tried], plain: Sequence[Tried], relaxed: Sequence[Tried]
) -> dict[str, Any]:
    mine = [t for t in tried if t.loop.first == first]
    graph = mine[0].loop.graph
    again = [t for t in (*plain, *relaxed) if t.loop.first == first]
    return {
        "at_instruction": first,
        "live_vectors": peak_of(graph, graph.order),
        "bodies": [_body(t) for t in mine],
        "kept": [
            {**_body(t), "modules": _modules(t, plain, relaxed)}
            for t in {id(t): t for t in again}.values()
        ],
    }


def _modules(tried: Tried, plain: Sequence[Tried], relaxed: Sequence[Tried]) -> list[str]:
    places = {"out": plain, "out_relaxed": relaxed}
    return [role for role, kept in places.items() if any(t is tried for t in kept)]


def _body(tried: Tried) -> dict[str, Any]:
    return {
        "pass": tried.variant.passed,
        "bit_identical": tried.variant.passed != FMA,
        "live_vectors": tried.variant.plan.peak,
        "gain": tried.gain.to_json() if tried.gain else None,
        "cases": tried.cases,
        "cases_without_trap": tried.ended,
        "equal": tried.equal,
        "why": tried.verdict,
    }
