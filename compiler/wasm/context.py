"""State of the lowering: scopes, locals, and addresses kept out of inner loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from nnjit_studio.compiler.ir.affine import Affine, affine, bounds, bounds_of, loads, variables
from nnjit_studio.compiler.ir.dtypes import dtype_of
from nnjit_studio.compiler.ir.loops import Statement, stored_buffers
from nnjit_studio.compiler.ir.tensor_ir import Expr, Program, stores_in
from nnjit_studio.compiler.wasm.ir import Function, LocalGet, LocalSet, Node, Op, add, i32, scale
from nnjit_studio.errors import CompileError

STORAGE_BYTES = {"f32": 4, "f16": 2, "i64": 8, "i32": 4, "i8": 1, "u8": 1, "bool": 1}
WASM_TYPE = {
    "f32": "f32", "f16": "f32", "i64": "i64", "i32": "i32", "i8": "i32", "u8": "i32", "bool": "i32",
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Scope:
    """A loop (``step`` > 0) or the body of a name (``step`` 0)."""

    var: str
    local: int
    step: int
    depth: int
    statements: list[Statement]
    guarded: bool
    """The scope stands under a condition inside the next outer one."""
    header: list[Node] = field(default_factory=list)
    """Runs once before the loop."""
    prefix: list[Node] = field(default_factory=list)
    """Runs at the start of every iteration."""
    latch: list[Node] = field(default_factory=list)
    """Runs at the end of every iteration."""
    bases: dict[object, LocalGet] = field(default_factory=dict)
    """Locals that hold addresses which change with this scope."""
    kept: dict[object, LocalGet] = field(default_factory=dict)
    computed: dict[object, LocalGet] = field(default_factory=dict)
    """Costly values that the prefix has already."""


class Context:
    """State of the lowering of one kernel.

    Parameters
    ----------
    lower_index
        Lowers an index expression to an i32 node; given from outside because
        it needs addresses itself.
    """

    def __init__(
        self,
        program: Program,
        function: Function,
        relaxed: bool,
        lower_index: Callable[[Context, Expr], Node],
    ) -> None:
        self.program = program
        self.function = function
        self.has_relaxed = relaxed
        self.tier_decides = False
        self.any_size = self.keep_loops = False
        self.out: list[Node] = []
        self.conditional = 0
        self.accumulators: dict[str, int] = {}
        self.accumulator_dtypes: dict[str, str] = {}
        self.vectors: set[str] = set()
        self.known: dict[str, tuple[int, int]] = {}
        self.dtypes: Mapping[str, str] = {b.name: b.dtype for b in program.buffers}
        self.weights = {b.name for b in program.buffers if b.constant}
        self.sizes = {b.name: _size(b.shape) for b in program.buffers}
        for buffer in program.buffers:
            if buffer.dtype not in STORAGE_BYTES:
                raise CompileError(
                    f"Buffer {buffer.name} of {program.name} has dtype {buffer.dtype}, "
                    "which Wasm kernels do not store.",
                    "Convert the model to float32.",
                )
        self._computed: dict[object, LocalGet] = {}
        self._lower_index = lower_index
        self._pointers = {b.name: LocalGet(i) for i, b in enumerate(program.buffers)}
        self._written = {
            store.buffer
            for stage in program.stages
            for store in (*stage.body, *stage.init, *stores_in(stage.steps))
        }
        self.root = Scope("", -1, 0, 0, [], False)
        self.scopes: list[Scope] = [self.root]
        self._bindings: dict[str, Scope] = {}

    # Locals and statement lists

    def local(self, type: str, name: str = "") -> int:
        return self.function.new_local(type, name)

    def keep(self, type: str, value: Node, name: str = "") -> LocalGet:
        """The value in a new local, set here."""
        local = self.local(type, name)
        self.out.append(LocalSet(local, value))
        return LocalGet(local)

    def keep_vector(self, value: Node) -> LocalGet:
        return self.keep("v128", value)

    @contextmanager
    def into(self, out: list[Node]) -> Iterator[list[Node]]:
        """Statements go to another list."""
        before, self.out = self.out, out
        try:
            yield out
        finally:
            self.out = before

    @contextmanager
    def branch(self) -> Iterator[list[Node]]:
        """Statements go to a list that runs under a condition."""
        self.conditional += 1
        try:
            with self.into([]) as out:
                yield out
        finally:
            self.conditional -= 1

    @contextmanager
    def enter(
        self, var: str, local: int, step: int, statements: list[Statement]
    ) -> Iterator[Scope]:
        """A new innermost scope."""
        guarded, self.conditional = self.conditional > 0, 0
        scope = Scope(var, local, step, len(self.scopes), statements, guarded)
        shadowed = self._bindings.get(var)
        self._bindings[var] = scope
        self.scopes.append(scope)
        try:
            yield scope
        finally:
            self.scopes.pop()
            self.conditional = int(guarded)
            if shadowed is None:
                del self._bindings[var]
            else:
                self._bindings[var] = shadowed

    @contextmanager
    def _at(self, scope: Scope, out: list[Node], guarded: bool = False) -> Iterator[None]:
        """As if the statements from here on stood in ``out``, inside ``scope``."""
        before, conditional, computed = self.scopes, self.conditional, self._computed
        # What the statement has computed runs later than a prefix.
        self._computed = scope.computed if out is scope.prefix else {}
        self.scopes, self.conditional = before[: scope.depth + 1], int(guarded)
        try:
            with self.into(out):
                yield
        finally:
            self.scopes, self.conditional, self._computed = before, conditional, computed

    def relaxed(self) -> bool:
        """Whether the tier has relaxed instructions, where that decides on the code."""
        self.tier_decides = True
        return self.has_relaxed

    # What is known of expressions

    def dtype(self, expr: Expr) -> str:
        return dtype_of(expr, self.dtypes, self.accumulator_dtypes)

    def bounds(self, expr: Expr) -> tuple[int, int]:
        return bounds(expr, self.known)

    def variable(self, name: str) -> Node:
        """The local of a loop variable."""
        return LocalGet(self._bindings[name].local)

    def bind_parameter(self, name: str, local: int, low: int, high: int) -> None:
        """A variable that the caller passes: it belongs to the root."""
        self._bindings[name] = Scope(name, local, 0, 0, [], False)
        self.known[name] = low, high

    # Addresses

    def address(self, buffer: str, index: Affine) -> Node:
        """Byte address of an element: a shared base, and the constant as outermost addend.

        The constant stays inside the base where the rest may be negative,
        because an offset immediate does not wrap.
        """
        size = STORAGE_BYTES[self.dtypes[buffer]]
        terms, constant = index
        if constant < 0 or (constant > 0 and not self._nonnegative(terms)):
            return self._base(buffer, terms, constant * size)
        base = self._base(buffer, terms, 0)
        return Op("i32.add", (base, i32(constant * size))) if constant else base

    def _nonnegative(self, terms: tuple[tuple[str | Expr, int], ...]) -> bool:
        for atom, coefficient in terms:
            if coefficient < 0:
                return False
            if not isinstance(atom, str) and self.bounds(atom)[0] < 0:
                return False
        return True

    def _base(self, buffer: str, terms: tuple[tuple[str | Expr, int], ...], constant: int) -> Node:
        scope, movable = self.root, True
        for atom, _ in terms:
            inner = self._bindings[atom] if isinstance(atom, str) else self._scope_of(atom)
            if inner.depth > scope.depth:
                scope = inner
            movable = movable and (isinstance(atom, str) or self._movable(atom, inner))
        size = STORAGE_BYTES[self.dtypes[buffer]]
        if not terms or not movable:
            base = add(self._pointers[buffer], i32(constant))
            return self._sum(base, terms, size)
        key = (buffer, terms, constant)
        found = scope.bases.get(key)
        if found is None:
            found = scope.bases[key] = self._new_base(scope, buffer, terms, constant)
        return found

    def _new_base(
        self,
        scope: Scope,
        buffer: str,
        terms: tuple[tuple[str | Expr, int], ...],
        constant: int,
    ) -> LocalGet:
        own = tuple(t for t in terms if self._changes_in(t[0], scope))
        rest = tuple(t for t in terms if t not in own)
        size = STORAGE_BYTES[self.dtypes[buffer]]
        local = self.local("i32", buffer)
        induction = scope.step and len(own) == 1 and own[0][0] == scope.var
        target = scope.header if induction else scope.prefix
        outer = self.scopes[scope.depth - 1] if induction else scope
        with self._at(outer, target, bool(induction) and scope.guarded):
            base = self._base(buffer, rest, constant)
            self.out.append(LocalSet(local, self._sum(base, own, size)))
        if induction:
            step = i32(own[0][1] * scope.step * size)
            scope.latch.append(LocalSet(local, Op("i32.add", (LocalGet(local), step))))
        return LocalGet(local)

    def _sum(self, base: Node, terms: tuple[tuple[str | Expr, int], ...], size: int) -> Node:
        for atom, coefficient in terms:
            value = self.variable(atom) if isinstance(atom, str) else self.atom(atom)
            base = add(base, scale(value, coefficient * size))
        return base

    def atom(self, expr: Expr) -> Node:
        """An index that is not linear, computed once where its variables change."""
        scope = self._scope_of(expr)
        if not self._movable(expr, scope):
            return self._lower_index(self, expr)
        found = scope.kept.get(expr)
        if found is None:
            with self._at(scope, scope.prefix):
                found = self.keep("i32", self._lower_index(self, expr), "index")
            scope.kept[expr] = found
        return found

    def _scope_of(self, expr: Expr) -> Scope:
        scope = self.root
        for name in variables(expr):
            inner = self._bindings.get(name)
            if inner is not None and inner.depth > scope.depth:
                scope = inner
        return scope

    def _changes_in(self, atom: str | Expr, scope: Scope) -> bool:
        inner = self._bindings[atom] if isinstance(atom, str) else self._scope_of(atom)
        return inner is scope

    def _movable(self, atom: Expr, scope: Scope) -> bool:
        """Whether evaluating it at the start of its scope is safe: a load may be guarded."""
        if any(name in self.accumulators for name in variables(atom)):
            return False
        found = loads(atom)
        if not found:
            return True
        if self.conditional or any(s.guarded for s in self.scopes[scope.depth + 1 :]):
            return False
        return all(load.buffer not in self._written for load in found)

    # Values that are needed again

    def forget(self) -> None:
        """A new statement: memory may have changed since the last one."""
        self._computed = {}

    def once(self, key: object, type: str, lower: Callable[[], Node]) -> Node:
        """A costly value of the current statement; fused operators repeat whole subtrees."""
        place = (key, len(self.scopes))
        found = self._computed.get(place)
        if found is None:
            value = lower()
            if self.conditional:
                return value
            found = self._computed[place] = self.keep(type, value)
        return found

    # Values that do not change in the innermost loop

    def invariant(self, key: object, expr: Expr, type: str, lower: Callable[[], Node]) -> Node:
        """The value of an expression, computed before the innermost loop where that is legal."""
        scope = self.scopes[-1]
        names = variables(expr)
        if (
            not scope.step
            or self.conditional
            or scope.var in names
            or any(name in self.accumulators for name in names)
        ):
            return lower()
        found = scope.kept.get(key)
        if found is None:
            written = stored_buffers(scope.statements)
            if any(load.buffer in written for load in loads(expr)):
                return lower()
            with self._at(self.scopes[scope.depth - 1], scope.header, scope.guarded):
                found = self.keep(type, lower())
            scope.kept[key] = found
        return found

    def safe(self, expr: Expr) -> bool:
        """Whether every load in it is inside its buffer whatever the conditions around it."""
        for load in loads(expr):
            low, high = bounds_of(affine(load.index), self.known)
            if low < 0 or high >= self.sizes[load.buffer]:
                return False
        return True


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
