"""Small pieces of WGSL text."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"\d+u?")


def vector(width: int, scalar: str = "f32") -> str:
    """The type of ``width`` scalars."""
    return scalar if width == 1 else f"vec{width}<{scalar}>"


def times(term: str, factor: int) -> str:
    """A u32 term times a constant."""
    if factor == 0 or term == "0u":
        return "0u"
    return term if factor == 1 else f"{term} * {factor}u"


def plus(*terms: str) -> str:
    """A sum of u32 terms; plain numbers, also those inside sums, are added up and come last."""
    parts = [part for term in terms for part in _addends(term)]
    rest = [part for part in parts if not _NUMBER.fullmatch(part)]
    constant = sum(int(part.rstrip("u")) for part in parts if _NUMBER.fullmatch(part))
    if constant or not rest:
        rest.append(f"{constant}u")
    return " + ".join(rest)


def _addends(term: str) -> list[str]:
    """The parts of a sum that stand outside all brackets."""
    parts = [""]
    for word in term.split(" + "):
        if parts[-1].count("(") + parts[-1].count("[") > parts[-1].count(")") + parts[-1].count(
            "]"
        ):
            parts[-1] += " + " + word
        elif parts[-1]:
            parts.append(word)
        else:
            parts[-1] = word
    return parts


def moved(term: str, by: int) -> str:
    """A u32 term and a constant of either sign; below 0 it wraps."""
    return f"({term} + {by % (1 << 32)}u)" if by else term


def indented(lines: list[str]) -> list[str]:
    return ["  " + line if line else line for line in lines]
