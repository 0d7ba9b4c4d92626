"""Facts about each line of a kernel's text, read from the names that the compiler leaves in it.

Loops, buffers and locals keep their names from the schedule to the last pass: a local of the
Wasm text is ``$name.number``, one that holds an address is named like its buffer. WGSL names its
bindings in a comment before each dispatch. So a line tells which loops it stands in, which
locals it sets, and which buffers its values come from and go to.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

NAME = re.compile(r"(?<![\w.])\$?[A-Za-z_]\w*(?![\w(])")
INDEXED = re.compile(r"\w+\[[^][]*\]")
RANGE = re.compile(r"for (\S+) in range\((.*), (\d+)\):")
WASM_NAME = re.compile(r"\$([^\s()]+)")
WASM_SET = re.compile(r"\(local\.(?:set|tee) \$([^\s()]+)")
WASM_GET = re.compile(r"\(local\.get \$([^\s()]+)")
WASM_STORE = re.compile(r"\.store\w*[^$]*\$([^\s()]+)")
WASM_LOAD = re.compile(r"\.load\w*[^$]*\$([^\s()]+)")
WASM_LOCAL = re.compile(r"\((?:local|param) \$(\S+) (\w+)\)")
DISPATCH = re.compile(r"// dispatch (\d+): \([^)]*\), (.*)")
BINDING = re.compile(r"@binding\((\d+)\) var<storage, \w+> (\w+):")
CALLED = re.compile(r"(\w+)\(")
FUNCTION = re.compile(r"fn (\w+)\(")
WGSL_SET = re.compile(r"(?:let|var|const)?\s*(\w+)(?:\.\w+)?(?:: [^=]*)?\s[-+*/]?= ")
WGSL_STORE = re.compile(r"(\w+)\[.*\](?:\.\w+)? [-+*/|&]?= ")


@dataclass
class Fact:
    """One line."""

    path: tuple[str, ...] = ()
    """Loops around it, outermost first, each ``variable#n`` for the n-th of this name there."""
    sets: tuple[str, ...] = ()
    """Locals that get a value, without the number that makes them unique."""
    loads: frozenset[str] = frozenset()
    """Buffers that it reads itself."""
    stores: tuple[str, ...] = ()
    """Buffers that it writes itself."""
    uses: frozenset[str] = frozenset()
    """Locals whose values flow into it."""
    heads: tuple[str, ...] = ()
    """The path of the loop that the line opens, closes or counts."""
    addresses: frozenset[str] = frozenset()
    """Buffers whose address it computes."""


@dataclass
class _Loops:
    """Paths of nested loops by their ordinal."""

    path: tuple[str, ...] = ()
    seen: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def inner(self, variable: str) -> tuple[str, ...]:
        place = (*self.path, variable)
        self.seen[place] += 1
        return (*self.path, f"{variable}#{self.seen[place]}")


def loop_facts(text: str, buffers: Collection[str]) -> list[Fact]:
    """Lines of tensor IR or of scheduled loops."""
    loops, open_at, facts = _Loops(), list[tuple[int, tuple[str, ...]]](), list[Fact]()
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        while open_at and depth <= open_at[-1][0]:
            loops.path = open_at.pop()[1]
        code = line.partition("  #")[0].strip()
        fact = Fact(loops.path)
        if head := RANGE.match(code):
            variable = head[1].lstrip("$")
            fact.sets = (variable,)
            if _trips(head[2], int(head[3])) != 1:
                open_at.append((depth, loops.path))
                loops.path = fact.heads = loops.inner(variable)
        elif not code.startswith(("if ", "else", "#", "parallel_extent")):
            left, found, right = code.partition(" := " if " := " in code else " = ")
            if found:
                fact.loads = _indexed(right, buffers)
                fact.uses = _names(right)
                if "[" in left:
                    fact.stores = (left.partition("[")[0],)
                else:
                    fact.sets = tuple(n.strip().lstrip("$") for n in left.split(","))
        facts.append(fact)
    return facts


def _trips(bounds: str, step: int) -> int | None:
    """How often a loop with constant bounds runs."""
    begin, _, end = bounds.partition(", ")
    if not (begin.lstrip("-").isdigit() and end.lstrip("-").isdigit()):
        return None
    return -(-(int(end) - int(begin)) // step)


def _indexed(text: str, buffers: Collection[str]) -> frozenset[str]:
    return frozenset(n for n in re.findall(r"(\w+)\[", text) if n in buffers)


def _names(text: str) -> frozenset[str]:
    """Names that are not indexed, stand in no index and are not called."""
    while (shorter := INDEXED.sub("", text)) != text:
        text = shorter
    return frozenset(n.lstrip("$") for n in NAME.findall(text))


def wasm_facts(text: str, buffers: Collection[str]) -> list[Fact]:
    """Lines of the Wasm text, after any pass."""
    lines = text.splitlines()
    types = dict(pair for line in lines for pair in WASM_LOCAL.findall(line))
    loops, facts = _Loops(), list[Fact]()
    ends = _loop_ends(lines)
    outer: list[tuple[int, tuple[str, ...]]] = []

    def plain(name: str) -> str:
        return re.sub(r"(^|\.)\d+$", "", name)

    def is_address(name: str) -> bool:
        return plain(name) in buffers and types.get(name) == "i32"

    for number, line in enumerate(lines):
        code = line.strip()
        if code.startswith(("(func", "(local ")):
            facts.append(Fact())
            continue
        if number in ends:
            end = ends[number]
            last = WASM_NAME.search(lines[end])
            outer.append((end, loops.path))
            loops.path = loops.inner(plain(last[1]) if last else "")
        sets = [n for n in WASM_SET.findall(code)]
        data = [n for n in sets if not is_address(n) and plain(n)]
        counts = loops.path and loops.path[-1].partition("#")[0]
        fact = Fact(
            loops.path,
            tuple(dict.fromkeys(plain(n) for n in data if plain(n) != counts)),
            frozenset(plain(n) for n in WASM_LOAD.findall(code) if is_address(n)),
            tuple(plain(n) for n in WASM_STORE.findall(code) if is_address(n)),
            addresses=frozenset(plain(n) for n in sets if is_address(n)),
        )
        if number in ends or any(plain(n) == counts for n in data):
            fact.heads = loops.path
        facts.append(fact)
        if outer and number == outer[-1][0]:
            fact.heads = loops.path
            loops.path = outer.pop()[1]
    return facts


def _loop_ends(lines: Sequence[str]) -> dict[int, int]:
    """The line that closes each loop, by the line that opens it."""
    ends, stack = {}, []
    for number, line in enumerate(lines):
        if line.strip() == "(loop":
            stack.append(number)
        elif line.strip().startswith("(br_if 0"):
            ends[stack.pop()] = number
    return ends


def wgsl_facts(text: str, arguments: Sequence[str]) -> list[Fact]:
    """Lines of WGSL, dispatch after dispatch; locals of each are told apart."""
    facts = list[Fact]()
    dispatch, function, bound = "", "", list[str]()
    names: dict[str, str] = {}
    written: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        code = line.strip()
        fact = Fact()
        facts.append(fact)
        if head := DISPATCH.match(code):
            dispatch, function, names, written = head[1], "", {}, {}
            bound = [part.split(" ")[0] for part in head[2].split(", ")]
        elif binding := BINDING.search(code):
            names[binding[2]] = _argument(bound[int(binding[1])], arguments)
        elif head := FUNCTION.search(code):
            function = head[1]
        elif not line.startswith(("}", "@", "var<", "enable")):
            _wgsl_line(fact, code, names, dispatch)
            # What a function writes is written by the lines that call it, too.
            for called in CALLED.findall(code):
                fact.stores += written.get(called, ())
            written[function] = tuple(dict.fromkeys(written.get(function, ()) + fact.stores))
    return facts


def _argument(binding: str, arguments: Sequence[str]) -> str:
    number = int(binding[1:])
    return arguments[number] if binding[0] == "a" and number < len(arguments) else binding


def _wgsl_line(fact: Fact, code: str, names: dict[str, str], dispatch: str) -> None:
    def own(name: str) -> str:
        return f"{name}@{dispatch}"

    right = code
    if store := WGSL_STORE.match(code):
        right = code[store.end() :]
        if store[1] in names:
            fact.stores = (names[store[1]],)
        else:
            fact.sets = (own(store[1]),)
    elif assigned := WGSL_SET.match(code):
        right = code[assigned.end() :]
        fact.sets = (own(assigned[1]),)
    fact.loads = frozenset(names[n] for n in re.findall(r"(\w+)\[", right) if n in names)
    locals_ = _names(right) | {n for n in re.findall(r"(\w+)\[", right) if n not in names}
    fact.uses = frozenset(own(n) for n in locals_)


@dataclass
class Flow:
    """Buffers that each line's new values come from, through locals, and which lines only
    give a buffer or an accumulator its first value."""

    reads: list[frozenset[str]]
    constant: list[bool]


def flow_of(facts: Sequence[Fact]) -> Flow:
    """Follow values through locals until nothing is new."""
    sources: dict[str, frozenset[str]] = defaultdict(frozenset)
    changed = True
    while changed:
        changed = False
        for fact in facts:
            found = fact.loads.union(*(sources[u] for u in fact.uses))
            for name in fact.sets:
                if not found <= sources[name]:
                    sources[name] |= found
                    changed = True
    known = {name for fact in facts for name in fact.sets}
    accumulators = {name for fact in facts for name in fact.sets if name in fact.uses}
    reads, constant = [], []
    for fact in facts:
        new = [u for u in fact.uses if u not in fact.sets]
        fresh = frozenset(fact.loads).union(*(sources[u] for u in new))
        reads.append(fresh or frozenset[str]().union(*(sources[u] for u in fact.uses)))
        nothing = not reads[-1] and not fact.uses & known and not fact.heads
        constant.append(nothing and bool(fact.stores or accumulators.intersection(fact.sets)))
    return Flow(reads, constant)


def variables(facts: Iterable[Fact]) -> set[str]:
    """Names of all loop variables."""
    return {part.partition("#")[0] for fact in facts for part in fact.heads}


def spellings(name: str) -> set[str]:
    """What a local may be called in tensor IR: WGSL spells the axis ``rk`` as ``v_rk_2``."""
    plain = name.partition("@")[0]
    return {plain, re.sub(r"_\d+$", "", plain.removeprefix("v_")), plain.removeprefix("v_")}
