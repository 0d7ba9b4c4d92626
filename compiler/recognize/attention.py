"""Recogniser of attention: two products with a softmax between them.

``out = finish(weight(softmax(score(Q K^T))) V)``. The program has the stages of all three, as the
importer's :mod:`nnjit_studio.compiler.importer.program.fuse_attention` joins them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import linear_form, loads, variables
from nnjit_studio.compiler.ir.tensor_ir import (
    Binary,
    Const,
    Expr,
    Load,
    Program,
    Select,
    Stage,
    Var,
    stage_expressions,
    stores_in,
)
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.recognize.softmax import (
    COLUMN,
    QUOTIENT,
    Softmax,
    recognize_softmax,
    sums_in_turns,
)
from nnjit_studio.space.wasm.attention import ATTENTION

LOWEST = -3.4028234663852886e38
"""Where a softmax begins to look for the largest value, as the importer writes it."""
DEPTHS = 128
"""Widest head that kernels keep in registers."""
DEPTH_STEP = 16
"""Heads are multiples of it: four threads of a row share them in vectors of four."""
_SOFTMAX_STAGES = 4


@dataclass(frozen=True)
class Attention:
    """Parameters of the templates; extents in elements."""

    batch: int
    queries: int
    keys: int
    depth: int
    scores: Contraction
    """``Q K^T``: A is Q, B is K, m a query, n a key. Its epilogue is not used."""
    values: Contraction
    """The weights times V: A are the weights, B is V, n runs along the head."""
    score: Expr
    """What is raised, over the batch axes of ``scores``, m, n and ``Var(ACCUMULATOR)``."""
    guarded: bool
    """Whether a row without any weight gives zeros, not NaN."""
    weight: Expr | None
    """What a weight becomes, over ``Var(QUOTIENT)``, where it is rounded: it needs the whole row's
    sum."""
    score_steps: tuple[int, ...]
    """By how much the flat number of the batch grows with each batch axis of ``scores``."""
    value_steps: tuple[int, ...]
    """The same with each batch axis of ``values``."""

    @property
    def kind(self) -> str:
        return ATTENTION

    @property
    def dims(self) -> tuple[int, ...]:
        return self.batch, self.queries, self.keys, self.depth

    @property
    def packed(self) -> None:
        return None

    def tunable(self, dtype: str) -> bool:
        return True

    @property
    def flops(self) -> int:
        """Of both products."""
        return self.scores.flops + self.values.flops

    @property
    def labels(self) -> tuple[str, ...]:
        """Words for what is done to scores, and to results."""
        return (*self.scores.labels, *self.values.labels)


def recognize_attention(program: Program) -> Attention | None:
    """Read a program as attention of float32; None when it is anything else.

    Heads are multiples of :data:`DEPTH_STEP` wide, at most :data:`DEPTHS`, in Q, K and V
    alike. Of one query, keys lie along the head or side by side, and are read in whole lines;
    its weights are not rounded.
    """
    stages = program.stages
    for first in range(1, len(stages) - _SOFTMAX_STAGES):
        last = first + _SOFTMAX_STAGES
        if not sums_in_turns(stages[first:last]):
            continue
        softmax = recognize_softmax(_part(program, first, last))
        if softmax is None:
            continue
        scores = recognize(_part(program, 0, first))
        values = recognize(_part(program, last, len(stages)))
        return None if scores is None or values is None else _joined(softmax, scores, values)
    return None


def _part(program: Program, first: int, last: int) -> Program:
    """The stages from ``first`` to ``last`` as a program of its own."""
    stages = program.stages[first:last]
    written, outside = _written(stages), (*program.stages[:first], *program.stages[last:])
    read = {load.buffer for s in outside for e in stage_expressions(s) for load in loads(e)}
    mine = written | {
        load.buffer for s in stages for e in stage_expressions(s) for load in loads(e)
    }
    buffers = []
    for buffer in program.buffers:
        if buffer.name not in mine:
            continue
        role = "input"
        if buffer.name in written:
            result = buffer.role == "output" or buffer.name in read
            role = "output" if result else "workspace"
        buffers.append(replace(buffer, role=role))
    return Program(program.name, tuple(buffers), stages)


def _written(stages: Sequence[Stage]) -> set[str]:
    stores = (s for stage in stages for s in (*stage.body, *stage.init, *stores_in(stage.steps)))
    return {store.buffer for store in stores}


def _joined(softmax: Softmax, scores: Contraction, values: Contraction) -> Attention | None:
    weights = softmax.result
    keys, depth = scores.n, scores.k
    guarded = _guarded(weights.value)
    plain = guarded or weights.value == Var(QUOTIENT)
    rounded = None if plain else weights.value
    if rounded is not None and (scores.m == 1 or not _of_quotient(rounded)):
        return None
    if len(scores.epilogue) != 1 or values.a.buffer != weights.buffer:
        return None
    if (values.m, values.k, values.n) != (scores.m, keys, depth) or softmax.columns != keys:
        return None
    if depth % DEPTH_STEP or depth > DEPTHS:
        return None
    if scores.m == 1 and 1 not in (scores.b.row, scores.b.column):
        return None
    # Scores and weights are dense, with a row for each batch and query, and one flat number.
    block = scores.m * keys
    score_steps = _steps(scores, block)
    places = [s // block for s in values.a.batch]
    dense = (
        values.a.offset == 0
        and values.a.column == 1
        and (scores.m == 1 or values.a.row == keys)
        and all(s % block == 0 for s in values.a.batch)
    )
    batch = scores.batches
    if score_steps is None or not dense or batch != values.batches:
        return None
    if not _counts_all([(s, a.extent) for s, a in zip(places, values.batch, strict=True)], batch):
        return None
    if not _is_row_major(softmax, weights.index) or batch * scores.m != softmax.n_rows:
        return None
    score = _score(softmax, scores)
    if score is None:
        return None
    return Attention(
        batch,
        scores.m,
        keys,
        depth,
        scores,
        values,
        score,
        guarded,
        rounded,
        score_steps,
        tuple(places),
    )


def _steps(scores: Contraction, block: int) -> tuple[int, ...] | None:
    """Of the flat batch number by axis, where the scores' place is dense."""
    extents = {a.var: a.extent for a in scores.batch} | {"m": scores.m, "n": scores.n}
    form = linear_form(scores.epilogue[0].index, extents)
    if form is None or form[0] or form[1].get("n") != 1:
        return None
    if scores.m > 1 and form[1].get("m") != scores.n:
        return None
    strides = [form[1].get(axis.var, 0) for axis in scores.batch]
    steps = [stride // block for stride in strides]
    if any(stride % block for stride in strides):
        return None
    axes = [(step, a.extent) for step, a in zip(steps, scores.batch, strict=True)]
    return tuple(steps) if _counts_all(axes, scores.batches) else None


def _counts_all(axes: Sequence[tuple[int, int]], batch: int) -> bool:
    """Whether steps and extents count 0, 1, 2, ... without gaps."""
    span = 1
    for step, extent in sorted(axes):
        if step != span:
            return False
        span *= extent
    return span == batch


def _is_row_major(softmax: Softmax, index: Expr) -> bool:
    """Whether an index of the softmax is its point's flat number."""
    extents = {a.var: a.extent for a in softmax.rows} | {COLUMN: softmax.columns}
    stride, wanted = softmax.columns, {COLUMN: 1}
    for axis in reversed(softmax.rows):
        wanted[axis.var] = stride
        stride *= axis.extent
    return linear_form(index, extents) == (0, wanted)


def _score(softmax: Softmax, scores: Contraction) -> Expr | None:
    """What is raised: the softmax reads the first product's result, and nothing else."""
    (store,) = scores.epilogue
    value = softmax.value
    if not isinstance(value, Load) or value.buffer != store.buffer:
        return None
    return store.value if _is_row_major(softmax, value.index) else None


def _guarded(value: Expr) -> bool:
    """Whether a quotient that is no number counts as 0, and nothing else is done to it."""
    quotient = Var(QUOTIENT)
    return value == Select(Binary("ne", quotient, quotient), Const(0.0, "f32"), quotient)


def _of_quotient(value: Expr) -> bool:
    return variables(value) == {QUOTIENT} and not loads(value)
