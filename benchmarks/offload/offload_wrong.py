"""Wrong kernels and wrong plans of offloaded loops: one change in the text of one or the other."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

Wrong = tuple[str, str, dict[str, Any]]
"""Its kind, what was done in words, and the nest of a plan with it."""
Edit = tuple[str, str, str | Callable[[re.Match[str]], str]]

_LOOP = re.compile(r"for \(var (\w+) = [^;]+; \1 < (\d+)(u?);")
_HEAD = ("@", "fn ", "var<", "enable", "diagnostic", "const", "struct")
_ASSIGNED = re.compile(
    r"^ +(?!let |var |for |if )[\w.\[\] +*/>]+ (=|\+=) .*;$|^ +(keep|finish)\(.*;$"
)


def _more(found: re.Match[str]) -> str:
    return f"{int(found[1]) + 1}{found[2]}"


EDITS: tuple[Edit, ...] = (
    ("wrong constant", r"(?<![\w.])(\d+\.\d+)f", lambda m: f"{float(m[1]) * 1.25 + 0.25}f"),
    ("off by one", r"(?<![\w.])(\d+)(u?)(?![\w.])", _more),
    ("wrong operator", r" \+ ", " - "),
    ("wrong operator", r" \* ", " + "),
    ("wrong operator", r" - ", " + "),
    ("wrong stride", r" \* (\d+)(u?)(?![\w.])", lambda m: f" * {2 * int(m[1])}{m[2]}"),
    ("wrong stride", r" / (\d+)(u?)(?![\w.])", lambda m: f" / {2 * int(m[1])}{m[2]}"),
    ("ties and NaN", r" < ", " <= "),
    ("ties and NaN", r" > ", " >= "),
    ("ties and NaN", r" < ", " > "),
    ("ties and NaN", r"!?is_nan\(", "is_finite("),
    ("ties and NaN", r"(max|min)_f32\(", r"\1("),
    ("swapped operand", r"select\(([\w.()-]+), ([\w.()-]+), ", r"select(\2, \1, "),
    ("swapped operand", r"\((\w[\w.]*) ([-/]) (\w[\w.]*)\)", r"(\3 \2 \1)"),
    ("swapped operand", r"(\w)\.x\b", r"\1.y"),
    ("swapped operand", r"(\w)\.w\b", r"\1.z"),
)
"""What is done to a line of a kernel outside of its declarations and the heads of its loops."""


def wrong_kernels(nest: dict[str, Any], count: int, rng: random.Random) -> Iterator[Wrong]:
    """Nests whose kernel has one mistake; each kind that applies is as likely as any other."""
    ways: dict[str, list[tuple[str, Callable[[dict[str, Any]], None]]]] = {}
    for number, dispatch in enumerate(nest["kernel"]["dispatches"]):
        for kind, what, change in _of_dispatch(number, dispatch):
            ways.setdefault(kind, []).append((what, change))
    if len(nest["kernel"]["dispatches"]) > 1:
        ways["missing dispatch"] = [("the last", lambda kernel: kernel["dispatches"].pop())]
    for _ in range(count):
        if not ways:
            return
        kind = rng.choice(sorted(ways))
        what, change = ways[kind].pop(rng.randrange(len(ways[kind])))
        if not ways[kind]:
            del ways[kind]
        made = copy.deepcopy(nest)
        change(made["kernel"])
        yield kind, what, made


Change = tuple[str, str, Callable[[dict[str, Any]], None]]


def _of_dispatch(number: int, dispatch: dict[str, Any]) -> Iterator[Change]:
    lines = dispatch["code"].split("\n")
    for at, line in enumerate(lines):
        for kind, other in _lines(line):
            code = "\n".join((*lines[:at], *other, *lines[at + 1 :]))
            yield kind, f"{line.strip()} -> {''.join(other).strip()}", _set(number, "code", code)
    for axis, groups in enumerate(dispatch["workgroups"]):
        if groups > 1:
            fewer = [*dispatch["workgroups"]]
            fewer[axis] -= 1
            yield "dropped tail", f"workgroups {fewer}", _set(number, "workgroups", fewer)
    read = [i for i, access in enumerate(dispatch["access"]) if access == "read"]
    for i, j in pairwise(read):
        swapped = [*dispatch["bindings"]]
        swapped[i], swapped[j] = swapped[j], swapped[i]
        yield "swapped buffers", f"bindings {swapped}", _set(number, "bindings", swapped)


def _lines(line: str) -> Iterator[tuple[str, Sequence[str]]]:
    """The line with one mistake, or without it."""
    text = line.strip()
    if text.startswith(_HEAD):
        return
    if text.startswith("for ("):
        found = _LOOP.search(line)
        if found:
            for bound in (int(found[2]) - 1, int(found[2]) + 1):
                end = found.end(2)
                yield "loop bound", [f"{line[: found.start(2)]}{bound}{line[end:]}"]
        return
    for kind, pattern, new in EDITS:
        for found in re.finditer(pattern, line):
            changed = new(found) if callable(new) else found.expand(new)
            yield kind, [line[: found.start()] + changed + line[found.end() :]]
    if text == "workgroupBarrier();":
        yield "race", []
    elif _ASSIGNED.match(line):
        yield "missing statement", []


def _set(number: int, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda kernel: kernel["dispatches"][number].__setitem__(name, value)


def wrong_plans(nest: dict[str, Any]) -> Iterator[Wrong]:
    """Nests whose plan says something else of memory than the loop does."""
    for i, nbytes in enumerate(nest["inputs"]):
        for fewer in (nbytes - 4, nbytes // 8 * 4):
            yield _changed("short window", nest, "inputs", i, fewer)
    for i, output in enumerate(nest["outputs"]):
        dims = output["dims"]
        for j, (step, extent) in enumerate(dims):
            for kind, dim in (
                ("dropped tail", (step, extent - 1)), ("wrong stride", (step + 4, extent)),
            ):  # fmt: skip
                other = {**output, "dims": [*dims[:j], dim, *dims[j + 1 :]]}
                yield _changed(f"{kind} of an output", nest, "outputs", i, other)
        if len(dims) == 2:
            yield _changed(
                "transposed output", nest, "outputs", i, {**output, "dims": [*dims[::-1]]}
            )


def _changed(kind: str, nest: dict[str, Any], field: str, i: int, value: Any) -> Wrong:
    members = [*nest[field]]
    members[i] = value
    return kind, f"{field} {i}: {nest[field][i]} -> {value}", {**nest, field: members}
