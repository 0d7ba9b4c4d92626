"""The description of the interface as OpenAPI 3.1, with schemas made of the dataclasses."""

from __future__ import annotations

from typing import Any

import msgspec

from nnjit_studio.commons.kernels.wanted import QUESTION
from nnjit_studio.commons.report.document import HOME
from nnjit_studio.commons.report.signed import SignedReport
from nnjit_studio.commons.server.answers import KernelAnswer
from nnjit_studio.commons.server.maps import KernelMap

_REFUSED = {
    "400": "The report is malformed, untimely, forged or was sent before; one sentence says which.",
    "413": "The report is too large.",
    "429": "This source or device sent too much; come again after Retry-After.",
    "503": "The server is busy; come again after Retry-After.",
}


def document(address: str, compiles: bool = False) -> dict[str, Any]:
    """The description of the server at this address, which may compile kernels for pages."""
    types = (SignedReport, KernelAnswer, KernelMap)
    (signed, *_), schemas = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    asked = [
        {"name": name, "in": "query", "required": True, "schema": {"type": "string"}}
        for name in HOME
    ]
    return {
        "openapi": "3.1.0",
        "info": {"title": "NNJIT Studio commons", "version": "1"},
        "servers": [{"url": address}],
        "paths": {
            "/reports": {
                "post": {
                    "summary": "Send a signed report; sending the same again counts nothing.",
                    "requestBody": {"content": {"application/json": {"schema": signed}}},
                    "responses": {"200": {"description": "It is kept."}, **_described(_REFUSED)},
                }
            },
            "/kernels": _reading("Every believed kernel of a kind of device.", asked),
            "/map": _reading(
                "What wins on which kind of device, for the kernels of one of 256 buckets.",
                [{"name": "bucket", "in": "query", "required": True, "schema": {"type": "string"}}],
            ),
            "/snapshots/{digest}.json": _reading(
                "A published answer, for ever the same.",
                [{"name": "digest", "in": "path", "required": True, "schema": {"type": "string"}}],
            ),
            **(_COMPILED if compiles else {}),
            "/health": _reading("Whether the database answers.", []),
            "/metrics": _reading("Metrics for Prometheus.", []),
        },
        "components": {"schemas": schemas},
    }


def _described(texts: dict[str, str]) -> dict[str, Any]:
    return {status: {"description": text} for status, text in texts.items()}


def _reading(summary: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    answers = _described({"200": "The document.", "304": "The caller has it."})
    return {"get": {"summary": summary, "parameters": parameters, "responses": answers}}


_COMPILED = {
    "/candidates": _reading(
        "The next eight kernels of a workload by their headers; compiled where none did before.",
        [
            {"name": name, "in": "query", "required": True, "schema": {"type": kind}}
            for name, kind in QUESTION.items()
        ],
    ),
    "/compiled/{digest}.wasm": _reading(
        "A kernel by its SHA-256, for ever the same.",
        [{"name": "digest", "in": "path", "required": True, "schema": {"type": "string"}}],
    ),
}
