"""Requests of a runner to the page, and the values of their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from nnjit_studio.engine.messages.arrays import blobs_to_outputs, feeds_to_blobs
from nnjit_studio.engine.messages.connection import RequestError
from nnjit_studio.engine.messages.fixtures import fixture_request
from nnjit_studio.engine.messages.replies import read
from nnjit_studio.engine.runner.link import Ask
from nnjit_studio.errors import PageError, UserError
from nnjit_studio.model import Plan
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.model.segments import MixedPlan
from nnjit_studio.records import (
    Fixture,
    Inference,
    Kernel,
    MeasurePolicy,
    RateRequest,
    RunResult,
    Tap,
    Trial,
)
from nnjit_studio.records.serving import ServingStats

MEASURED = (
    "samples_ms", "incumbent_ms", "batch", "error_ratio", "guard_ok", "stopped_early",
    "instantiate_ms", "error",
)  # fmt: skip
"""What every ``measured`` has; the rest is a GPU's or was asked for."""
TRIED = ("mode", "rounds", "ms", "without_ms", "runs_ms", "runs_without_ms")
SERVED = ("latencies_ms", "generations", "touched", "elapsed_ms", "tuning_ms", "error")
"""What every ``served`` has."""

CHUNK_BYTES = 8 * 1024 * 1024
"""Larger data goes in parts of this size: no frame holds a model."""


@dataclass(frozen=True)
class Model:
    """A model to be loaded: its plan, its weights file, and further plans by name."""

    plan: Plan
    weights: Path
    others: Mapping[str, Plan]
    mixed: MixedPlan | None = None
    """How its steps are divided between WebGPU and Wasm."""


@dataclass(frozen=True)
class _Stored:
    memory_bytes: int = 0


@dataclass(frozen=True)
class _Rated:
    samples_ms: list[list[float]]


@dataclass(frozen=True)
class _Inferred:
    outputs: list[dict[str, Any]]


def check_weights(model: Model) -> None:
    """Refuse a weights file that is not as long as the plan says.

    Raises
    ------
    UserError
    """
    nbytes, wanted = model.weights.stat().st_size, model.plan.weights_bytes
    if nbytes != wanted:
        raise UserError(
            f"The weights file {model.weights} has {nbytes} bytes, the plan wants {wanted}.",
            "Import the model again.",
        )


def send_model(ask: Ask, model: Model, fields: Mapping[str, object]) -> int:
    """Load a model: its plans, then its weights in chunks; bytes of the engine's memory.

    ``fields`` are those of the request that do not follow from the model.
    """
    header = {"type": "load", "plan": model.plan.to_json(), **fields}
    if model.others:
        header["others"] = {name: plan.to_json() for name, plan in model.others.items()}
    if model.mixed:
        header["mixed"] = model.mixed.to_json()
    which = {"rival": True} if fields.get("rival") else {}
    with model.weights.open("rb") as file:
        reply, _ = ask(header)
        for offset in range(0, model.plan.weights_bytes, CHUNK_BYTES):
            ask({"type": "weights", "offset": offset, **which}, [file.read(CHUNK_BYTES)])
    return read(reply, _Stored).memory_bytes


def send_kernels(ask: Ask, kernels: Sequence[Kernel], only: bool) -> int:
    """Register kernels; bytes of the engine's memory, 0 where they did not change."""
    headers = [kernel.header() for kernel in kernels]
    header = {"type": "register", "kernels": headers, "only": only}
    reply, _ = ask(header, [kernel.data for kernel in kernels])
    return read(reply, _Stored).memory_bytes


def send_fixture(ask: Ask, fixture: Fixture, fields: Mapping[str, object]) -> None:
    """Send inputs and references, large ones in parts."""
    header, blobs = fixture_request(fixture)
    for index, data in enumerate(blobs):
        view = memoryview(data).cast("B")
        if view.nbytes > CHUNK_BYTES:
            part = {"type": "ahead", "blob": index, "nbytes": view.nbytes}
            for offset in range(0, view.nbytes, CHUNK_BYTES):
                ask({**part, "offset": offset}, [view[offset : offset + CHUNK_BYTES]])
            blobs[index] = b""
    ask({**header, **fields}, blobs)


def infer(
    ask: Ask, plan: Plan, feeds: Feeds, fields: Mapping[str, object], timeout_s: float
) -> Inference:
    """Run a plan of the loaded model, as the fields of the request say."""
    inputs, blobs = feeds_to_blobs(plan.input_specs, feeds)
    reply, results = ask({"type": "infer", "inputs": inputs, **fields}, blobs, timeout_s)
    outputs = blobs_to_outputs(plan.outputs, read(reply, _Inferred).outputs, results)
    return replace(read({**reply, "outputs": {}}, Inference), outputs=outputs)


def tap(ask: Ask, plan: Plan, feeds: Feeds, taps: Sequence[Tap]) -> list[bytes]:
    """Run a plan of the loaded model once and copy what the taps name."""
    inputs, blobs = feeds_to_blobs(plan.input_specs, feeds)
    header = {"type": "infer", "inputs": inputs, "runs": 1, "profile": False}
    _, copies = ask({**header, "taps": [asdict(tap) for tap in taps]}, blobs)
    if [blob.nbytes for blob in copies] != [tap.nbytes for tap in taps]:
        raise PageError(
            "The page sent other bytes than those asked for.",
            "Reload the page; it may be an old copy.",
        )
    return [bytes(blob) for blob in copies]


def trial(
    ask: Ask,
    plan: Plan,
    feeds: Feeds,
    kernels: Sequence[Kernel],
    policy: MeasurePolicy,
    name: str,
) -> Trial:
    """Try kernels in a plan of the loaded model, by its name; the main one has none."""
    inputs, blobs = feeds_to_blobs(plan.input_specs, feeds)
    headers = [kernel.header() for kernel in kernels]
    header = {"type": "trial", "inputs": inputs, "kernels": headers, "policy": asdict(policy)}
    which = {"plan": name} if name else {}
    try:
        reply, _ = ask({**header, **which}, [*blobs, *(kernel.data for kernel in kernels)])
    except RequestError as error:
        return Trial(error=str(error))
    return read(reply, Trial, TRIED)


def measure(
    ask: Ask, challenger: Kernel, incumbent: Kernel | None, policy: MeasurePolicy
) -> RunResult:
    """Measure a kernel on the fixture that the page has."""
    kernels = [challenger] if incumbent is None else [challenger, incumbent]
    header = {
        "type": "measure",
        "challenger": challenger.header(),
        "incumbent": None if incumbent is None else incumbent.header(),
        "policy": asdict(policy),
    }
    # The page itself gives up after 3 max_ms + 10 s (docs/protocol.md).
    timeout_s = policy.max_ms * 3 / 1000 + 20.0
    reply, _ = ask(header, [kernel.data for kernel in kernels], timeout_s)
    told = {name: getattr(challenger, name) for name in ("workload", "settings", "tier")}
    if reply.get("error_ratio") == "inf":  # JSON has no infinity
        told["error_ratio"] = float("inf")
    return read({**reply, **told}, RunResult, MEASURED)


def rates(ask: Ask, kernels: Sequence[bytes], request: RateRequest) -> list[list[float]]:
    """Time kernels side by side."""
    reply, _ = ask({"type": "rates", **asdict(request)}, kernels)
    return read(reply, _Rated).samples_ms


def serving_stats(reply: Mapping[str, Any]) -> ServingStats:
    """The statistics of ``served``; that serving ended is a ``PageError``."""
    stats = read(reply, ServingStats, SERVED)
    if stats.error:
        raise PageError(f"The model stopped serving: {stats.error}", "Load the model again.")
    return stats
