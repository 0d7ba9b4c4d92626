"""The result of an import: graph, workloads, plan and programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nnjit_studio.compiler.ir.tensor_ir import Program
from nnjit_studio.model import Graph, Plan, Workload
from nnjit_studio.model.plan_choice import PlanChoice


@dataclass(frozen=True)
class BuiltModel:
    """The result of one import; ``programs`` by workload key."""

    graph: Graph
    workloads: tuple[Workload, ...]
    plan: Plan
    programs: Mapping[str, Program]
    packable: tuple[str, ...]
    choices: tuple[PlanChoice, ...] = ()
    """What the import chose by rules, with the other ways that there are."""
