"""``nnjit bench``: kernels compared with their peers, compile times, the gain by the passes."""

from __future__ import annotations

import click

from nnjit_studio.cli.verbs import LazyGroup

VERBS = {
    "compile": "peers:compile_times",
    "dispatches": "gpu:dispatches",
    "duels": "tuner:duels",
    "gemv4": "gpu:gemv4",
    "import": "imports:import_models",
    "in-place": "tuner:in_place",
    "kernels": "peers:kernels",
    "llama": "llm:llama",
    "models": "peers:models",
    "passes": "peers:passes",
    "plan-regret": "tuner:plan_regret",
    "regret": "tuner:regret",
    "serving": "tuner:serving",
    "turbo": "turbo:turbo",
}


@click.group(cls=LazyGroup, package=__package__, verbs=VERBS)
def bench() -> None:
    """Measure kernels and models against their peers, compile times, the gain by the passes."""
