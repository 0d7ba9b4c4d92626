"""What a loop does, from one symbolic run of its body: inductions, sums, stores, trip count."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nnjit_studio.foreign_wasm.offload.lift.code import EMPTY, Code, literal_of, offset_of
from nnjit_studio.foreign_wasm.offload.lift.machine import Machine, Store
from nnjit_studio.foreign_wasm.offload.lift.refusal import Refused
from nnjit_studio.foreign_wasm.offload.lift.terms import (
    Atom,
    Expr,
    Lanes,
    Linear,
    Load,
    Reduce,
    Scalar,
    Unknown,
    Value,
    added,
    as_integer,
    atom_of,
    is_float,
    number,
    rebuilt,
    symbol,
    total,
    walk,
)
from nnjit_studio.foreign_wasm.offload.lift.trips import trip_count

MAX_STORES = 256
EFFECTS = ("store", "atomic", "memory.", "table.", "global.set", "elem.", "data.")


def run_loop(code: Code, begin: int, m: Machine) -> None:
    """Take a machine from the head of a loop to behind it.

    Raises
    ------
    Refused
        When the loop is not a fixed number of iterations of straight-line code and such loops.
    """
    if code.instructions[begin].immediates[0] != EMPTY:
        raise Refused("branch")
    written = code.written(begin, code.ends[begin])
    heads = {x: symbol(code.types[x], partial(_phi, begin, x)) for x in written}
    # What a local steps by shows in a first run; in the second it is known at the head.
    trial = _Loop(begin, written, m, _body(code, begin, m, heads, trial=True)[0])
    trial.find_inductions()
    heads = {x: trial.head(value) for x, value in heads.items()}
    inner, condition = _body(code, begin, m, heads)
    _Loop(begin, written, m, inner, trial.integers).finish(condition)


def _body(
    code: Code, begin: int, m: Machine, heads: dict[int, Value], trial: bool = False
) -> tuple[Machine, Value]:
    """Run a loop's body once; the machine then, and the condition to go on."""
    end = code.ends[begin]
    inner = Machine(list(m.locals), order=m.order, ranges=m.ranges, budget=m.budget)
    for x, value in heads.items():
        inner.locals[x] = value
    last = code.names[end - 1] == "br_if" and code.instructions[end - 1].immediates[0] == 0
    run_straight(code, begin + 1, end - 1 if last else end, inner, trial)
    if not last or len(inner.stack) != 1:
        raise Refused("branch")
    return inner, inner.pop()


def run_straight(code: Code, begin: int, end: int, m: Machine, trial: bool = False) -> None:
    """Run instructions that are no branch and no call, and the loops among them.

    In a trial, what a loop that is refused sets is not known.
    """
    i = begin
    while i < end:
        instruction, name = code.instructions[i], code.names[i]
        m.budget[0] -= 1
        if m.budget[0] < 0:
            raise Refused("size")
        if name == "loop":
            try:
                run_loop(code, i, m)
            except Refused as refused:
                if not trial:
                    raise
                for x in code.written(i, code.ends[i]):
                    m.locals[x] = Unknown(refused.reason)
            i = code.ends[i]
        elif name == "local.get":
            m.push(m.locals[instruction.immediates[0]])
        elif name in ("local.set", "local.tee"):
            m.locals[instruction.immediates[0]] = m.pop()
            if name == "local.tee":
                m.push(m.locals[instruction.immediates[0]])
        elif (name == "block" and i not in code.reached) or name == "nop" or name == "end":
            pass
        elif name == "global.get":
            m.push(Unknown("address"))
        elif name == "global.set":
            raise Refused("global")
        elif "call" in name:
            raise Refused("call")
        elif instruction.opcode < 0x1A or name.startswith(("br_", "throw", "try", "catch")):
            raise Refused("branch")
        else:
            _step(name, instruction.opcode, offset_of(instruction), literal_of(instruction), m)
        i += 1


def _step(name: str, code: int, offset: int, literal: object, m: Machine) -> None:
    if offset < 0:
        raise Refused("memory")
    before = len(m.stores), m.order
    try:
        m.step(name, code, offset, literal)
    except KeyError:
        raise Refused("instruction") from None
    if any(word in name for word in EFFECTS) and before == (len(m.stores), m.order):
        reason = "f64" if name.startswith("f64") else "integer" if "store" in name else "memory"
        raise Refused(reason)
    if len(m.stores) > MAX_STORES:
        raise Refused("size")


def _phi(loop: int, x: int, lane: int) -> Atom:
    """The value of a local at the head of a loop that sets it."""
    return Atom("phi", loop, (x, lane))


class _Loop:
    """The run of one body, and the machine that stands before the loop."""

    def __init__(
        self,
        begin: int,
        written: list[int],
        outer: Machine,
        inner: Machine,
        integers: dict[Atom, Linear] | None = None,
    ) -> None:
        self.begin, self.written, self.outer, self.inner = begin, written, outer, inner
        self.counter = Atom("iter", begin)
        self.integers = integers or {}
        self.sums: dict[Atom, list[Expr]] = {}
        self.floats: dict[Atom, Expr] = {}

    def finish(self, condition: Value) -> None:
        """Bring stores, loads and locals to the outer machine."""
        self._accumulators()
        self.trips = trip_count(condition, self.counter, self.outer.ranges)
        around = ((self.counter, self.trips),)
        for store in self.inner.stores:
            value = store.value
            if not is_float(value):
                raise Refused(value.reason if isinstance(value, Unknown) else "integer")
            address = self._placed(store.address)
            loops = (*around, *store.loops)
            self.outer.stores.append(Store(address, self._valued(value), store.order, loops))  # type: ignore[arg-type]
        self.outer.loads += [(self._placed(a), order) for a, order in self.inner.loads]
        self.outer.order = self.inner.order
        after = {x: self._after(x, self.inner.locals[x]) for x in self.written}
        for x, value in after.items():
            self.outer.locals[x] = value

    def head(self, value: Value) -> Value:
        """A local at the head of the loop, its inductions in terms of the counter."""
        if isinstance(value, Lanes):
            return Lanes(tuple(self.head(lane) for lane in value.lanes))  # type: ignore[misc]
        known = as_integer(value)
        if known is not None and known.terms and known.terms[0][0] in self.integers:
            return self.integers[known.terms[0][0]]
        return value

    def find_inductions(self) -> None:
        """Locals that change by a constant, and those that follow such a one."""
        pending: list[tuple[Atom, Linear, Linear]] = []
        for x in self.written:
            pairs = zip(_parts(self.outer.locals[x]), _parts(self.inner.locals[x]), strict=False)
            for lane, (first, after) in enumerate(pairs):
                before = as_integer(first)
                phi = Atom("phi", self.begin, (x, lane))
                if before is None or not isinstance(after, Linear):
                    continue
                step = after.plus(atom_of(phi), -1)
                if not step.terms:
                    self.integers[phi] = before.plus(atom_of(self.counter), step.constant)
                else:
                    pending.append((phi, before, after))
        for phi, before, after in pending:
            value = after.replaced(self.integers)
            previous = value.replaced({self.counter: atom_of(self.counter).plus(number(-1))})
            start = previous.replaced({self.counter: number(0)})
            if start == before and not self._own(previous):
                self.integers[phi] = previous

    def _own(self, value: Linear) -> bool:
        return any(a.kind == "phi" and a.number == self.begin for a, _ in value.terms)

    def _accumulators(self) -> None:
        """Sums in float locals; what they add must not depend on a sum."""
        ends: dict[Atom, Expr] = {}
        for x in self.written:
            for lane, part in enumerate(_parts(self.inner.locals[x])):
                if is_float(part):
                    ends[Atom("phi", self.begin, (x, lane))] = part  # type: ignore[assignment]
        for phi, value in ends.items():
            before = self._before(phi)
            if value == Scalar(phi) or self._carried(phi, value):
                self.floats[phi] = before if value == Scalar(phi) else self._previous(value)
            elif Scalar(phi) in (terms := added(value)):
                terms.remove(Scalar(phi))
                self.sums[phi] = terms
        # What is neither kept nor summed up must not be read before it is set: `_valued` sees it.

    def _carried(self, phi: Atom, value: Expr) -> bool:
        """Whether a local holds at the head what the iteration before loaded, in the first too."""
        if not isinstance(value, Load) or self._own(value.address):
            return False
        first = self._previous(value).address.replaced({self.counter: number(0)})
        return self._before(phi) == Load(first)

    def _previous(self, value: Expr) -> Load:
        assert isinstance(value, Load)
        return Load(value.address.replaced({self.counter: atom_of(self.counter).plus(number(-1))}))

    def _before(self, phi: Atom) -> Expr:
        x, lane = phi.local
        value = self.outer.locals[x]
        if isinstance(value, Lanes):
            value = value.lanes[lane]
        if not is_float(value):
            return Scalar(Atom("unknown", 0))
        return value  # type: ignore[return-value]

    def _placed(self, address: Linear) -> Linear:
        if self._own(address):
            raise Refused("index")
        return address

    def _valued(self, value: Expr) -> Expr:
        """A value of one iteration in terms of the counter."""
        if (
            isinstance(value, Scalar)
            and value.atom.kind == "phi"
            and value.atom.number == self.begin
        ):
            if value.atom not in self.floats:
                raise Refused("recurrence")
            return self.floats[value.atom]
        if any(e == Scalar(Atom("unknown", 0)) for e in walk(value)):
            raise Refused("integer")
        if isinstance(value, Load):
            return Load(self._placed(value.address))
        return rebuilt(value, self._valued)

    def _after(self, x: int, end: Value) -> Value:
        """A local behind the loop."""
        if isinstance(end, Lanes):
            parts = [self._part_after(x, lane, part) for lane, part in enumerate(end.lanes)]
            wrong = next((p for p in parts if isinstance(p, Unknown)), None)
            return wrong or Lanes(tuple(parts))  # type: ignore[arg-type]
        return self._part_after(x, 0, end)

    def _part_after(self, x: int, lane: int, end: Value) -> Value:
        if isinstance(end, Linear):
            value = end.replaced({self.counter: number(self.trips - 1)})
            return Unknown("live-out") if self._own(value) else value
        if is_float(end):
            return self._float_after(x, lane, end)  # type: ignore[arg-type]
        return Unknown(end.reason if isinstance(end, Unknown) else "integer")

    def _float_after(self, x: int, lane: int, end: Expr) -> Value:
        phi = Atom("phi", self.begin, (x, lane))
        if phi in self.floats:
            return self.floats[phi]
        if phi not in self.sums:
            depends = any(isinstance(e, Scalar) and e.atom == phi for e in walk(end))
            return Unknown("recurrence" if depends else "live-out")
        try:
            terms = [self._summed(self._valued(t)) for t in self.sums[phi]]
        except Refused as refused:
            return Unknown(refused.reason)
        return total([self._before(phi), *terms])

    def _summed(self, term: Expr) -> Expr:
        around = (self.counter, self.trips)
        if isinstance(term, Reduce):
            return replace(term, loops=(around, *term.loops))
        return Reduce((around,), term)


def _parts(value: Value) -> tuple[Value, ...]:
    return value.lanes if isinstance(value, Lanes) else (value,)
