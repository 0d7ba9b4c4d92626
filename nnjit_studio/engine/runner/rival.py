"""Another form of the loaded model in the same page, to be compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from nnjit_studio.engine.messages.arrays import feeds_to_blobs
from nnjit_studio.engine.messages.replies import read
from nnjit_studio.engine.runner import requests
from nnjit_studio.engine.runner.page_runner import PageRunner
from nnjit_studio.engine.runner.requests import Model
from nnjit_studio.model import Plan
from nnjit_studio.model.feeds import Feeds
from nnjit_studio.records import Inference, Kernel, MeasurePolicy, Trial

RIVAL = {"rival": True}


class RivalModel:
    """A second model in the page of a runner, in a memory of its own; one at a time.

    It has no part in the recovery of a lost page: then its next call is a ``PageError``.

    Parameters
    ----------
    plan, weights
        Of the other form: the same inputs and outputs as the loaded model's.
    """

    def __init__(self, runner: PageRunner, plan: Plan, weights: Path) -> None:
        self._runner, self._plan = runner, plan
        model = Model(plan, weights, {})
        runner.steady(lambda ask: requests.send_model(ask, model, RIVAL))

    def register(self, kernels: Sequence[Kernel]) -> None:
        """Give it kernels: one for each of its workloads."""
        header = {"type": "register", "kernels": [k.header() for k in kernels], **RIVAL}
        self._runner.steady(lambda ask: ask(header, [k.data for k in kernels]))

    def infer(self, feeds: Feeds) -> Inference:
        """Run it once."""
        fields = {"runs": 1, "profile": False, **RIVAL}
        plan, limit_s = self._plan, 2 * 120.0
        return self._runner.steady(lambda ask: requests.infer(ask, plan, feeds, fields, limit_s))

    def trial(self, feeds: Feeds, policy: MeasurePolicy) -> Trial:
        """Run the loaded model and this one in turns; ``ms`` are of this one."""
        inputs, blobs = feeds_to_blobs(self._plan.input_specs, feeds)
        header = {"type": "trial", "inputs": inputs, "kernels": [], "policy": asdict(policy)}
        reply = self._runner.steady(lambda ask: ask({**header, **RIVAL}, blobs)[0])
        return read(reply, Trial, requests.TRIED)

    def drop(self) -> None:
        """Give its memory back."""
        self._runner.steady(lambda ask: ask({"type": "rival_drop"}))
