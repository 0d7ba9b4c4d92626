"""Which rows a model has: what could be changed, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.advice.apply import HEADERS, Apply
from nnjit_studio.advice.records import IMPOSSIBLE, Row
from nnjit_studio.model import ImportOptions, TensorSpec
from nnjit_studio.model.plan_choice import PlanChoice
from nnjit_studio.model.survey import Survey

MOST_THREADS = 8
"""More are not asked for: pages of visitors have as many at best."""


@dataclass(frozen=True)
class Facts:
    """What is known of a model and its page before anything is measured."""

    survey: Survey
    importing: ImportOptions
    choices: Sequence[PlanChoice]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    feeds: Mapping[str, NDArray[Any]]
    threads: int = 1
    """That the untouched model runs on."""
    cores: int = 1
    """Threads that the processor has."""


def rows_of(facts: Facts) -> tuple[Row, ...]:
    """Every row that this model has, in the order of measuring."""
    makers = (_threads, _half_weights, _direct)
    return tuple(row for maker in makers for row in maker(facts))


def impossible(name: str, title: str, problem: str, apply: Apply | None = None) -> Row:
    """A row that cannot be measured here."""
    return Row(name, title, apply or Apply(), state=IMPOSSIBLE, problem=problem)


def _threads(facts: Facts) -> Iterator[Row]:
    most = min(facts.cores, MOST_THREADS)
    if most <= facts.threads:
        why = f"The model runs on {facts.threads}, and the processor has {facts.cores}."
        yield impossible("threads", "More threads", why)
        return
    apply = Apply(threads=most, headers=HEADERS)
    asks = "The page's server sends the two headers of cross-origin isolation."
    yield Row("threads", f"{most} threads for {facts.threads}", apply, asks)


def _half_weights(facts: Facts) -> Iterator[Row]:
    title = "Weights in f16"
    if facts.importing.half_weights:
        yield impossible("f16-weights", title, "They are in f16 already.")
    else:
        yield Row("f16-weights", title, Apply(half_weights=True))


def _direct(facts: Facts) -> Iterator[Row]:
    title = "3x3 convolutions without Winograd's tiles"
    tiles = [c for c in facts.choices if c.name.startswith("winograd")]
    if not tiles or not facts.importing.winograd:
        why = "No convolution of this model runs in tiles."
        yield impossible("direct-convolutions", title, why)
    else:
        yield Row("direct-convolutions", title, Apply(direct=True))
