"""Choices that an import makes once by a rule, and that may be measured instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from nnjit_studio.errors import UserError

RULE = "rule"
"""How a plan is spelled in which every choice is that of its rule."""
ON, OFF = "on", "off"
NO_WAYS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class PlanChoice:
    """A choice with the ways that this model has; all of them compute the same."""

    name: str
    value: str
    """What this import took."""
    rule: str
    """What the rule takes."""
    others: tuple[str, ...]
    """The ways that this import did not take."""
    reason: str
    """What the choice is about."""


def spell(ways: Mapping[str, str]) -> str:
    """Choices that differ from their rules, as text: ``name=value``, in order of their names."""
    return ",".join(f"{name}={ways[name]}" for name in sorted(ways)) or RULE


def parse(text: str) -> dict[str, str]:
    """Inverse of :func:`spell`.

    Raises
    ------
    UserError
        When the text is none.
    """
    if text == RULE:
        return {}
    pairs = [item.partition("=") for item in text.split(",")]
    if not all(name and value for name, _, value in pairs):
        raise UserError(f"{text!r} is no plan.", "Write NAME=VALUE, separated by commas.")
    return {name: value for name, _, value in pairs}


def changed(choices: Iterable[PlanChoice], name: str, value: str) -> dict[str, str]:
    """The ways of an import with one choice made differently, without those of the rules."""
    ways = {c.name: value if c.name == name else c.value for c in choices}
    rules = {c.name: c.rule for c in choices}
    return {n: v for n, v in ways.items() if v != rules[n]}
