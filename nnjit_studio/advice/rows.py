"""Which rows a model has: what could be changed, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from nnjit_studio.advice.apply import HEADERS, Apply
from nnjit_studio.advice.records import IMPOSSIBLE, MAX_ERROR, Row
from nnjit_studio.advice.sizes import smaller_shapes
from nnjit_studio.model import ImportOptions, TensorSpec
from nnjit_studio.model.plan_choice import PlanChoice, changed
from nnjit_studio.model.recipe import (
    CONSTANTS,
    FOUR_BIT,
    INT8_DYNAMIC,
    INT8_ROWS,
    INT8_STATIC,
    OUTPUTS,
    Recipe,
)
from nnjit_studio.model.survey import Survey

MOST_PLANS = 3
"""Choices of the plan that have a row of their own; `nnjit tune --plan` measures all."""
MOST_OUTPUTS = 4
"""Outputs that have a row of their own."""
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
    """That this process may use."""
    max_error: float = MAX_ERROR
    """What the guard accepts."""


def rows_of(facts: Facts) -> tuple[Row, ...]:
    """Every row that this model has, in the order of measuring: first what costs no import or
    often pays, last what computes another file's weights.
    """
    makers = (
        _threads, _half_weights, _sizes, _direct, _webgpu, _plan, _outputs, _constants, _quantised,
    )  # fmt: skip
    return tuple(row for maker in makers for row in maker(facts))


def impossible(name: str, title: str, problem: str, apply: Apply | None = None) -> Row:
    """A row that cannot be measured here."""
    return Row(name, title, apply or Apply(), state=IMPOSSIBLE, problem=problem)


def _threads(facts: Facts) -> Iterator[Row]:
    most = min(facts.cores, MOST_THREADS)
    if most <= facts.threads:
        why = f"The model runs on {facts.threads}, and {facts.cores} may be used here."
        yield impossible("threads", "More threads", why)
        return
    apply = Apply(threads=most, headers=HEADERS)
    sent = " and ".join(f"{name}: {value}" for name, value in HEADERS.items())
    title = f"{most} threads instead of {facts.threads}, with COOP and COEP headers"
    yield Row("threads", title, apply, f"The page's server sends {sent}.")


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


def _quantised(facts: Facts) -> Iterator[Row]:
    title = f"8 bits in products that keep an error of {facts.max_error:.2g}, a scale for each row"
    yield Row(INT8_ROWS, title, Apply(recipe=Recipe(INT8_ROWS, max_error=facts.max_error)))
    measured = "Ranges of activations are those of the inputs at hand: give real ones."
    for name, title, note in (
        (INT8_DYNAMIC, "Weights in 8 bits, activations quantised as they come", ""),
        (FOUR_BIT, "Weights of products in 4 bits", ""),
        (INT8_STATIC, "Weights and activations in 8 bits, with ranges measured once", measured),
    ):
        yield Row(name, title, Apply(recipe=Recipe(name)), note=note)


def _plan(facts: Facts) -> Iterator[Row]:
    """Choices but those of convolutions, which are many and of one kind: see :func:`_direct`."""
    choices = [c for c in facts.choices if not c.name.startswith("winograd")]
    for choice in choices[:MOST_PLANS]:
        value = choice.others[0]
        ways = changed(facts.choices, choice.name, value)
        name = "plan-" + "".join(c if c.isalnum() else "-" for c in f"{choice.name}-{value}")
        title = f"{choice.name.replace('_', ' ').capitalize()}: {value} instead of {choice.value}"
        yield Row(name, title, Apply(ways=ways), note=f"Now: {choice.reason}.")


def _webgpu(facts: Facts) -> Iterator[Row]:
    asks = "Your visitors have a GPU and a browser with WebGPU; others run in Wasm as now."
    yield Row("webgpu", "WebGPU", Apply(backend="webgpu"), asks)


def _sizes(facts: Facts) -> Iterator[Row]:
    title = "Smaller inputs"
    open_axes = {p.name: p.dims for p in facts.survey.inputs if p.dims is not None}
    shapes = smaller_shapes(open_axes, facts.inputs)
    if not shapes:
        why = "The file leaves no side or length open that can be smaller: export it with one."
        yield impossible("smaller-inputs", title, why)
        return
    before = {spec.name: spec.shape for spec in facts.inputs}
    smaller = ((name, shape) for name, shape in shapes.items() if shape != before[name])
    spelled = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in smaller)
    asks = f"Your page can do with inputs of these sizes: {spelled}."
    yield Row("smaller-inputs", f"{title}: {spelled}", Apply(shapes=shapes), asks)


def _outputs(facts: Facts) -> Iterator[Row]:
    names = [spec.name for spec in facts.outputs]
    if len(names) < 2:
        yield impossible("one-output", "Unused outputs cut", "The model has a single output.")
        return
    for name in names[:MOST_OUTPUTS]:
        title = f"Only the output {name}"
        apply = Apply(recipe=Recipe(OUTPUTS, outputs=(name,)))
        yield Row(f"only-{name}", title, apply, f"Your page reads no output but {name}.")


def _constants(facts: Facts) -> Iterator[Row]:
    title = "Inputs that never change as constants"
    scalars = {s.name: facts.feeds[s.name] for s in facts.inputs if s.size == 1}
    if not scalars or len(scalars) == len(facts.inputs):
        yield impossible("constant-inputs", title, "No input of this model is a single number.")
        return
    told = ", ".join(f"{n} = {a.reshape(-1)[0]}" for n, a in scalars.items())
    apply = Apply(recipe=Recipe(CONSTANTS, constants=scalars))
    yield Row("constant-inputs", title, apply, f"Your page always gives {told}.")
