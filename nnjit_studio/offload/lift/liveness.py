"""Which locals are read behind a point of a function before they are set."""

from __future__ import annotations

from collections.abc import Collection

from nnjit_studio.offload.lift.code import Code

_ENDS = ("return", "unreachable", "throw", "rethrow", "throw_ref")
_HANDLERS = ("try", "try_table", "delegate")


def live_behind(code: Code, points: Collection[int]) -> dict[int, frozenset[int]]:
    """The live locals behind each of these instructions; all, where a function handles exceptions.

    Passes backwards over the code until the sets at the heads of loops no longer grow.
    """
    if any(name in _HANDLERS or name.startswith("br_on") for name in code.names):
        everything = frozenset(range(len(code.types)))
        return dict.fromkeys(points, everything)
    heads: dict[int, int] = {}
    while True:
        before = dict(heads)
        found = _pass(code, points, heads)
        if heads == before:
            return {p: frozenset(x for x in range(len(code.types)) if s >> x & 1)
                    for p, s in found.items()}  # fmt: skip


def _pass(code: Code, points: Collection[int], heads: dict[int, int]) -> dict[int, int]:
    """One pass; a set of locals is a number with a bit for each."""
    opens = {end: begin for begin, end in code.ends.items()}
    labels: list[int] = [0]
    behind: list[int] = []
    found: dict[int, int] = {}
    live = 0
    for i in range(len(code.names) - 1, -1, -1):
        name, given = code.names[i], code.instructions[i].immediates
        if i in points:
            found[i] = live
        if name == "end" and i in opens:
            begin = opens[i]
            labels.append(heads.get(begin, 0) if code.names[begin] == "loop" else live)
            behind.append(live)
        elif name == "else":
            # The first part begins anew from what follows; the condition adds what this one needs.
            behind[-1], live = live, labels[-1]
        elif name in ("block", "loop", "if"):
            labels.pop()
            after = behind.pop()
            if name == "loop":
                heads[i] = heads.get(i, 0) | live
            elif name == "if":
                live |= after
        elif name == "br":
            live = labels[-1 - given[0]]
        elif name == "br_if":
            live |= labels[-1 - given[0]]
        elif name == "br_table":
            live = 0
            for label in given:
                live |= labels[-1 - label]
        elif name in _ENDS or name.startswith("return_call"):
            live = 0
        elif name == "local.get":
            live |= 1 << given[0]
        elif name in ("local.set", "local.tee"):
            live &= ~(1 << given[0])
    return found
