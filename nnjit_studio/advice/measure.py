"""Measuring a row: its form of the model and the untouched one, in turns in one page."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.advice.records import Measurement
from nnjit_studio.engine.pages.rounds import RoundsPolicy
from nnjit_studio.engine.pages.server import PageServer
from nnjit_studio.model import NUMPY_DTYPES, TensorSpec
from nnjit_studio.verdict.case import OURS, input_file, is_weights, shipped_bytes, uploaded
from nnjit_studio.verdict.figures import median_interval, paired_ratio
from nnjit_studio.verdict.measure import PAGE, REFUSAL_LENGTH, Visits, messages, never

POLICY = RoundsPolicy(rounds=24, min_sample_ms=10.0, warmup_ms=200.0, max_warmup_ms=1500.0)


@dataclass(frozen=True)
class Form:
    """A form of the model as a page would ship it, in a folder of its own."""

    name: str
    source: str
    """Its manifest, from the folder of all forms."""
    feeds: Mapping[str, NDArray[Any]]
    outputs: tuple[TensorSpec, ...]
    threads: int = 1
    provider: str = "wasm"
    """``wasm`` or ``webgpu``."""


@dataclass(frozen=True)
class Found:
    """What a page told so far."""

    measured: Measurement | None = None
    base: Measurement | None = None
    """Of the untouched form, in the same page."""
    refused: str = ""
    """Why one of both does not run."""
    outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Flat, by name; empty before the end."""
    base_outputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    sentinel_ms: float = 0.0
    """In its best moment."""
    browser: str = ""


def measure(
    folder: Path,
    base: Form,
    form: Form,
    visits: Visits,
    seconds: float,
    usual_ms: float = 0.0,
    cancelled: Callable[[], bool] = never,
) -> Iterator[Found]:
    """What is known after each round; the last has the outputs.

    Parameters
    ----------
    usual_ms
        Of the sentinel in the best moment of this machine, 0 where that is not known.

    Raises
    ------
    TargetError, PageError
        When the page does not come or fails.
    UserError
        When it was cancelled.
    """
    forms = (base, form) if form is not base else (base,)
    job = {
        "threads": base.threads,
        "contenders": [_entry(folder, each) for each in forms],
        "policy": asdict(POLICY),
        "budget_ms": 1e3 * seconds,
        "watched": True,
        "inputs": [],
    }
    (folder / "job.json").write_text(json.dumps(job))
    with PageServer({"files": folder}) as server, visits.visit(server, PAGE):
        for message in messages(server, "row", cancelled):
            if message["type"] == "opening":
                continue
            if message["refused"]:
                name, why = next(iter(message["refused"].items()))
                yield Found(refused=" ".join(why.split())[:REFUSAL_LENGTH] or f"{name} fails.")
                return
            yield _found(message, server, base, form, usual_ms)


def _entry(folder: Path, form: Form) -> dict[str, Any]:
    """A form for the page, its inputs laid next to it."""
    inputs = []
    for name, data in form.feeds.items():
        file = f"{form.name}/{input_file(name)}"
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(np.ascontiguousarray(data).tobytes())
        inputs.append({"name": name, "type": data.dtype.name, "dims": data.shape, "file": file})
    return {
        "name": form.name,
        "engine": OURS,
        "source": form.source,
        "external": [],
        "threads": form.threads,
        "provider": form.provider,
        "inputs": inputs,
    }


def _found(
    message: Mapping[str, Any], server: PageServer, base: Form, form: Form, usual_ms: float
) -> Found:
    samples = {name: list(map(float, ms)) for name, ms in message["samples_ms"].items()}
    watch = samples.pop("sentinel")
    usual = min(min(watch), usual_ms or min(watch))
    over = message["type"] == "row"

    def measurement(of: Form) -> Measurement:
        return Measurement(
            ms=median_interval(samples[of.name]),
            base_ms=median_interval(samples[base.name]),
            ratio=None if of is base else paired_ratio(samples[of.name], samples[base.name]),
            pairs=len(watch),
            rate=usual / statistics.median(watch) if usual > 0 else 1.0,
            memory_mib=message["facts"][of.name]["memory_bytes"] / 2**20,
            download_bytes=_download_bytes(server, of) if over else 0,
        )

    mine, theirs = (_outputs(server, each) if over else {} for each in (form, base))
    return Found(
        measurement(form), measurement(base), "", mine, theirs, min(watch), message["user_agent"]
    )


def _outputs(server: PageServer, form: Form) -> dict[str, NDArray[Any]]:
    return uploaded(form.outputs, server.uploads, form.name)


def _download_bytes(server: PageServer, form: Form) -> int:
    """What a visitor of this form loads: code compressed, weights as they are."""
    own = f"files/{form.source.split('/')[0]}/"
    served = [
        (address, path)
        for address, path in server.served
        if (address.startswith(own) or not address.startswith("files/"))
        and not path.name.startswith("input-")
    ]
    weights = {path: path.stat().st_size for _, path in served if is_weights(path)}
    return shipped_bytes(served) + sum(weights.values())


def as_fed(feeds: Mapping[str, NDArray[Any]], specs: tuple[TensorSpec, ...]) -> dict[str, Any]:
    """The inputs that a plan takes, in its dtypes."""
    return {
        s.name: np.asarray(feeds[s.name]).astype(NUMPY_DTYPES[s.dtype]).reshape(s.shape)
        for s in specs
    }
