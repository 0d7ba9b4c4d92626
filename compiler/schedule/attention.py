"""The template of attention in one kernel: a few queries at a time, all keys.

A block of rows of scores, their softmax and its product with V follow each other while the
scores stand in a small workspace: nowhere is there a matrix of all queries and keys. The division
by a row's sum is part of the last product's epilogue, except where weights are rounded. Each
parallel step has a workspace of its own, and some of a head's blocks. Keys that lie along the head
are turned once for many queries: panels of keys side by side, as a product reads them best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import LANES, Affine
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    AssignVector,
    Element,
    EveryOther,
    For,
    Let,
    Put,
    Scheduled,
    Statement,
    StoreVector,
    When,
)
from nnjit_studio.compiler.ir.rewrite import int32, plus, substitute, times
from nnjit_studio.compiler.ir.tensor_ir import (
    VIRTUAL,
    Axis,
    Binary,
    Buffer,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Store,
    Var,
)
from nnjit_studio.compiler.recognize.attention import LOWEST, Attention, recognize_attention
from nnjit_studio.compiler.recognize.contraction import (
    ACCUMULATOR,
    Contraction,
    Operand,
    terms,
)
from nnjit_studio.compiler.recognize.softmax import COLUMN, QUOTIENT, Softmax
from nnjit_studio.compiler.schedule.matmul import PARTS, K, Plan, guess_matmul, in_blocks, plan_of
from nnjit_studio.compiler.schedule.matmul_dot import plan_of_dot
from nnjit_studio.compiler.schedule.softmax import divided_row, raised_row
from nnjit_studio.errors import CompileError
from nnjit_studio.records.candidate import Candidate
from nnjit_studio.space.wasm.attention import MOST_ROWS, first_guess

_DOT_ROWS, DOT_COLUMNS, _MOST_DOT_STEPS = 2, 4, 16
"""The tile of scores whose keys lie along the head: all of a head of 64 in one step."""
PANEL = 8
"""Keys of a turned panel."""
MOST_TURNS = 2
"""Parts of a head that each turn its keys for themselves: each has room for all of them."""
_MANY_QUERIES = 2 * MOST_ROWS
"""Of so many, turning keys costs less than it saves: as much as the scores of about 8 queries."""
PART, BLOCK, FIRST, KEY, _ROW = "$p", "$block", "$first", "$key", "$row"
_PANELS, TURNED = "$panel_of_keys", "$turned"


def guess_attention(a: Attention) -> Candidate:
    """One good tile, in blocks whose scores stay in a cache."""
    return first_guess(a.queries, a.keys, a.depth)


def with_workspace(program: Program) -> Program:
    """The program with room for the scores of one block in each parallel step.

    What it had for those of all queries is virtual from then on.
    """
    a = recognize_attention(program)
    if a is None or any(b.role == VIRTUAL for b in program.buffers):
        return program
    return with_room(program, _room(a))


def with_room(program: Program, room: Room) -> Program:
    """See :func:`with_workspace`."""
    inner = [b.name for b in program.buffers if b.role == "workspace"]
    buffers = (replace(b, role=VIRTUAL) if b.name in inner else b for b in program.buffers)
    scores = Buffer(f"ws{len(inner)}", "f32", (room.elements,), "workspace")
    return replace(program, buffers=(*buffers, scores))


def _room(a: Attention) -> Room:
    """Of at least two blocks to a part: the last one repeats rows of the one before, which must not
    be another thread's."""
    parts = max(1, min(PARTS // a.batch, -(-a.queries // MOST_ROWS) // 2))
    many = a.queries >= _MANY_QUERIES and a.keys >= PANEL
    return Room(a, parts, MOST_ROWS, many and a.scores.along_k and parts <= MOST_TURNS)


@dataclass(frozen=True)
class Room:
    """The workspace: for each parallel step rows of scores, a scale of each, then turned keys."""

    a: Attention
    parts: int
    """Parallel steps of a head."""
    rows: int
    turned: bool
    """Whether keys are turned."""

    @property
    def steps(self) -> int:
        """Parallel steps of the kernel."""
        return self.a.batch * self.parts

    @property
    def row(self) -> int:
        """Elements from row to row."""
        unit = PANEL if self.turned else LANES
        return -(-self.a.keys // unit) * unit

    @property
    def first(self) -> Expr:
        """The place of the first score."""
        return int32(0)

    @property
    def step(self) -> int:
        """Elements from one parallel step to the next."""
        return self.rows * (self.row + 1) + self.keys

    @property
    def keys(self) -> int:
        """Elements of turned keys."""
        return self.row * self.a.depth if self.turned else 0

    @property
    def first_key(self) -> Expr:
        """The place of the first turned key."""
        return times(Var(PART), self.step) + self.rows * (self.row + 1)

    @property
    def elements(self) -> int:
        return self.steps * self.step

    def score(self, row: Expr, key: Expr) -> Expr:
        return times(Var(PART), self.step) + times(row, self.row) + key

    def scale(self, row: Expr) -> Expr:
        return times(Var(PART), self.step) + row + self.rows * self.row


@dataclass(frozen=True)
class Block:
    """``rows`` queries of the attention in a program, from the variable ``FIRST`` on."""

    program: Program
    a: Attention
    rows: int
    room: Room
    open: bool = False
    """Whether the number of keys is a parameter of the kernel: each row of scores has an address of
    its own then, because its stride is no constant of an instruction."""

    @property
    def space(self) -> str:
        """The workspace's name.

        Raises
        ------
        CompileError
            When the program has none.
        """
        if not any(b.role == VIRTUAL for b in self.program.buffers):
            raise CompileError(
                "The attention has no workspace for its scores.",
                "Import the model again, or use the default schedule.",
            )
        return self.program.buffers[-1].name

    def turned(self) -> list[Statement]:
        """All keys to panels of the workspace, four by four elements at a time."""
        c, names = self.a.scores, [f"key{j}" for j in range(LANES)]
        at = terms(c, c.b, ((KEY, c.b.column), (K, 1)))
        to = ((TURNED, 1), (_PANELS, PANEL * c.k), (K, PANEL))
        body: list[Statement] = []
        for first in range(0, PANEL, LANES):
            for j, name in enumerate(names):
                index = Affine(at, c.b.offset + (first + j) * c.b.column)
                body.append(AssignVector(name, Element(c.b.buffer, index, LANES)))
            for half, (one, other) in (("low", names[:2]), ("high", names[2:])):
                body.append(AssignVector(f"{half}0", EveryOther(one, other, False)))
                body.append(AssignVector(f"{half}1", EveryOther(one, other, True)))
            for r in range(LANES):
                row = EveryOther(f"low{r % 2}", f"high{r % 2}", r >= 2)
                index = Affine(to, PANEL * r + first)
                body += [AssignVector("row", row), StoreVector("row", self.space, index, LANES)]
        return self._over_panels(PANEL, [For(K, int32(0), int32(c.k), LANES, body)])

    def in_panels(self, width: int) -> list[Statement]:
        """The scores of so many keys at a time."""
        return self._over_panels(width, self.scores(width))

    def _over_panels(self, width: int, body: list[Statement]) -> list[Statement]:
        # The last panel overlaps the one before, and is the same once more.
        first = Binary("min", times(Var(_PANELS), width), int32(self.a.keys - width))
        count = int32(-(-self.a.keys // width))
        return [For(_PANELS, int32(0), count, 1, [Let(KEY, first, body)])]

    def scores(self, width: int = 0) -> list[Statement]:
        """Rows of scores to the workspace: of all keys, or of ``width`` from the variable ``KEY``
        on."""
        c, shifted = self._rows_of(self.a.scores, self.a.scores.a), self._shifted(self.a.scores)
        key: Expr = Var(c.n_var)
        if width:
            key = key + Var(KEY)
            shifted[c.n_var] = key
            left = replace(c.a, batch=(*c.a.batch, 0, 0, 0))
            right = replace(c.b, batch=(*c.b.batch, c.b.column, 0, 0))
            if self.room.turned:
                batch = (*(0 for _ in c.b.batch), 0, width * c.k, 1)
                right = Operand(self.space, 0, batch, width, 1)
            within = (Axis(name, c.n) for name in (KEY, _PANELS, TURNED))
            c = replace(c, batch=(*c.batch, *within), n=width, a=left, b=right)
        value = substitute(self.a.score, shifted)
        c = replace(c, epilogue=(Store(self.space, self.room.score(Var(c.m_var), key), value),))
        if self.a.scores.along_k and not self.room.turned:
            rows, steps = min(self.rows, _DOT_ROWS), min(_MOST_DOT_STEPS, c.k // LANES)
            tile = Candidate(DOT_COLUMNS, rows, steps, DOT_COLUMNS, rows, c.k, "nm", False)
            return _loops(plan_of_dot(self.program, c, tile), tile)
        tile = replace(guess_matmul(c), pack=False)
        return _loops(plan_of(self.program, c, tile), tile)

    def weights(self) -> list[Statement]:
        """Exponentials in place of the scores, and what each row is to be multiplied by; or
        rounded weights, which nothing multiplies."""
        place = self.room.score(Var(_ROW), Var(COLUMN))
        raised = Store(self.space, place, Const(0.0, "f32"))
        lowest = Const(LOWEST, "f32")
        result = Store(self.space, place, self.a.weight or Var(QUOTIENT))
        row = Softmax((), self.a.keys, Load(self.space, place), lowest, raised, result)
        if self.a.weight is not None:
            body = [*raised_row(row), *divided_row(row)]
            return [For(_ROW, int32(0), int32(self.rows), 1, body)]
        scale: Expr = Const(1.0, "f32") / Var("total")
        if self.a.guarded:
            zero = Const(0.0, "f32")
            scale = Select(Binary("lt", zero, Var("total")), scale, zero)
        scales = Put((Store(self.space, self.room.scale(Var(_ROW)), scale),))
        return [For(_ROW, int32(0), int32(self.rows), 1, [*raised_row(row), scales])]

    def values(self, candidate: Candidate) -> list[Statement]:
        """The product of the weights and V."""
        c = self.a.values
        scale = Load(self.space, self.room.scale(Var(c.m_var)))
        result: Expr = Var(ACCUMULATOR) if self.a.weight else Var(ACCUMULATOR) * scale
        if self.a.guarded:
            zero = Const(0.0, "f32")
            result = Select(Binary("eq", scale, zero), zero, result)
        shifted = self._shifted(c)
        stores = tuple(
            Store(
                s.buffer,
                substitute(s.index, shifted),
                substitute(substitute(s.value, shifted), {ACCUMULATOR: result}),
            )
            for s in c.epilogue
        )
        # Rows of a block are counted from zero in the workspace.
        room = self.room
        weights = Operand(self.space, 0, (0,) * len(c.batch), room.row, 1)
        c = replace(self._rows_of(c, weights), epilogue=stores)
        left = replace(c.a, batch=(*weights.batch, 0, room.step))
        plan = plan_of(self.program, replace(c, a=left), candidate)
        begins = tuple(f"{_ROW}{i}" for i in range(candidate.y0 if self.open else 0))
        body = _loops(replace(plan, begins=begins), replace(candidate, y1=candidate.y0))
        for i, name in enumerate(begins):
            body = [Let(name, plus(room.first, i * room.row), body)]
        return body

    def over_blocks(
        self, begin: Expr, end: Expr, head: Expr, body: list[Statement]
    ) -> list[Statement]:
        """The body for a part's blocks, after its keys are turned."""
        blocks: list[Statement] = [For(BLOCK, begin, end, 1, body)]
        if not self.room.turned:
            return blocks
        turned = bound(self.a.scores.batch, self.a.score_steps, head, self.turned())
        body = [Let(TURNED, self.room.first_key, [*turned, *blocks])]
        some = Binary("lt", begin, end)
        return [When(some, body, [])] if self.open and self.room.parts > 1 else body

    def _rows_of(self, c: Contraction, left: Operand) -> Contraction:
        """The product for the rows of a block."""
        batch = (*c.batch, Axis(FIRST, self.a.queries), Axis(PART, self.room.steps))
        left = replace(left, batch=(*left.batch, left.row, 0))
        right = replace(c.b, batch=(*c.b.batch, 0, 0))
        return replace(c, batch=batch, m=self.rows, a=left, b=right)

    @staticmethod
    def _shifted(c: Contraction) -> dict[str, Expr]:
        return {c.m_var: Var(c.m_var) + Var(FIRST)}


def schedule_attention(program: Program, a: Attention, candidate: Candidate) -> Scheduled:
    """The loops of one candidate: ``y1`` queries of a block; the other settings are those of the
    product with V.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    if candidate.y1 > MOST_ROWS:
        raise CompileError(
            f"A block of y1={candidate.y1} queries has no room in the workspace.",
            f"Stay at or below {MOST_ROWS}.",
        )
    rows = min(candidate.y1, a.queries)
    block = Block(program, a, rows, _room(a))
    parts = block.room.parts
    head = Var(PART) // parts if parts > 1 else Var(PART)
    scores = block.in_panels(PANEL) if block.room.turned else block.scores()
    body = [
        *bound(a.scores.batch, a.score_steps, head, scores),
        *block.weights(),
        *bound(a.values.batch, a.value_steps, head, block.values(candidate)),
    ]
    first = times(Var(BLOCK), rows)
    if a.queries % rows:
        # The last block takes some queries of the one before once more.
        first = Binary("min", first, int32(a.queries - rows))
    body = [Let(FIRST, first, body)]
    blocks = -(-a.queries // rows)
    begin: Expr = int32(0)
    end: Expr = int32(blocks)
    if parts > 1:
        begin = times(Var(PART) % parts, blocks) // parts
        end = times(plus(Var(PART) % parts, 1), blocks) // parts
    body = block.over_blocks(begin, end, head, body)
    return Scheduled([For(PART, Var(BEGIN), Var(END), 1, body)], block.room.steps)


def bound(
    axes: Sequence[Axis], steps: Sequence[int], head: Expr, body: list[Statement]
) -> list[Statement]:
    """The body with the batch axes that a head's number stands for."""
    for axis, step in zip(axes, steps, strict=True):
        body = [Let(axis.var, (head // step if step > 1 else head) % axis.extent, body)]
    return body


def _loops(plan: Plan, candidate: Candidate) -> list[Statement]:
    outer, body = in_blocks(plan, candidate)
    return [For(outer.block, int32(0), int32(outer.blocks), 1, body)]
