"""The common matmul with one primitive changed at a time (NNJIT paper, section 5.1).

Variants that candidates, passes and tiers cannot express have a tile of their own here; loops,
lowering and passes are those of every kernel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from nnjit_studio.compiler.ir.affine import LANES, Affine, linear_expr
from nnjit_studio.compiler.ir.loops import (
    Assign,
    AssignVector,
    Element,
    For,
    MultiplyAdd,
    Put,
    Scheduled,
    Statement,
    StoreVector,
)
from nnjit_studio.compiler.ir.rewrite import int32
from nnjit_studio.compiler.ir.tensor_ir import (
    Binary,
    Buffer,
    Const,
    Expr,
    Load,
    Program,
    Store,
    Var,
)
from nnjit_studio.compiler.pipeline.passes import Artifact
from nnjit_studio.compiler.pipeline.wasm import OPTIONAL_PASSES, compile_program
from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.recognize.matmul import recognize
from nnjit_studio.compiler.schedule.epilogue import acc
from nnjit_studio.compiler.schedule.matmul import (
    PANEL,
    TILE,
    K,
    Plan,
    finish,
    over_tiles,
    plan_of,
)
from nnjit_studio.compiler.spelling import program_for
from nnjit_studio.device.primitives import PASS, PRIMITIVES
from nnjit_studio.errors import BugError
from nnjit_studio.records import TIERS
from nnjit_studio.records.candidate import Candidate

MATMUL_SIZE = 576
"""M, K and N of the common matmul: 0.4 GFLOP, a few milliseconds. The paper's 4096 would take
seconds a run; this one outgrows L1 and L2 too, and every tile tried divides it."""
BASE = Candidate(8, 6, 4, 8, 6, MATMUL_SIZE)
"""The candidate that every variant differs from in one primitive."""
TILE_BUFFER = "tile"
"""Workspace of all variants, for the one that copies."""


@dataclass(frozen=True)
class Variant:
    """One setting of one primitive; ``primitive`` is empty for the base."""

    primitive: str
    setting: str
    tier: str
    candidate: Candidate
    artifact: Artifact


def common_matmul(size: int = MATMUL_SIZE) -> Program:
    """The matmul with a constant B, and room for a tile of A."""
    program = program_for(f"matmul:{size}x{size}x{size}:f32")
    tile = Buffer(TILE_BUFFER, "f32", (BASE.y0 * size,), "workspace")
    return replace(program, buffers=(*program.buffers, tile))


def variants(program: Program, tiers: Collection[str]) -> Iterator[Variant]:
    """The base, then every other setting of every primitive that these tiers have."""
    tier = TIERS[1] if TIERS[1] in tiers else TIERS[0]
    contraction = recognize(program)
    if contraction is None:
        raise BugError(f"{program.name} is not a matmul.")
    base = replace(BASE, r1=contraction.k)
    yield Variant("", "", tier, base, compile_program(program, base, tier))
    for primitive in PRIMITIVES:
        for setting in primitive.settings[1:]:
            name = primitive.name
            if name == "relaxed_madd" and len(tiers) == 1:
                continue
            chosen, wanted = base, tier
            passes: Collection[str] = OPTIONAL_PASSES
            scheduled = None
            if name in _TILES:
                scheduled = _with_tile(program, contraction, base, name)
            elif name == "relaxed_madd":
                wanted = TIERS[0]
            elif primitive.decided == PASS:
                passes = tuple(p for p in OPTIONAL_PASSES if p != name)
            else:
                chosen = _varied(base, name, setting)
            artifact = compile_program(program, chosen, wanted, passes, scheduled=scheduled)
            yield Variant(name, setting, wanted, chosen, artifact)


def _varied(base: Candidate, primitive: str, setting: str) -> Candidate:
    if primitive == "unroll":
        return replace(base, r0=int(setting))
    if primitive == "x0":
        return replace(base, x0=int(setting), x1=int(setting))
    if primitive == "order":
        return replace(base, order=setting)
    if primitive == "pack":
        return replace(base, pack=setting == "1")
    raise BugError(f"No variant of the common matmul has the primitive {primitive}.")


def _with_tile(program: Program, c: Contraction, base: Candidate, primitive: str) -> Scheduled:
    plan = replace(plan_of(program, c, base), tile=_TILES[primitive])
    return over_tiles(program, plan, base)


def _cached_tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
    """cache_read = 1: the rows of A are copied, column by column, before the tile reads them."""
    c = plan.c
    copies = [
        Store(
            TILE_BUFFER,
            linear_expr((i, {K: rows})),
            Load(c.a.buffer, _a_index(plan, i)),
        )
        for i in range(rows)
    ]
    fill = For(K, int32(0), int32(c.k), 1, [Put((copy,)) for copy in copies])
    grid = _grid(rows, columns)
    body: list[Statement] = []
    for step in range(plan.unroll):
        body += _b_vectors(plan, columns, step)
        for i in range(rows):
            index = Affine(((K, rows),), step * rows + i)
            body.append(AssignVector("a", Element(TILE_BUFFER, index, 0)))
            body += [_multiply_add(i, j) for j in range(columns // LANES)]
    zeros: list[Statement] = [AssignVector(acc(i, j), None) for i, j in grid]
    return [fill, *zeros, _over_k(plan, body, plan.unroll), *finish(plan, rows, columns)]


def _written_tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
    """cache_write = 0: every step adds to the output in memory."""
    grid = _grid(rows, columns)
    zeros: list[Statement] = [AssignVector("zero", None)]
    zeros += [_store(plan, i, j, "zero") for i, j in grid]
    body: list[Statement] = []
    for step in range(plan.unroll):
        body += _b_vectors(plan, columns, step)
        for i in range(rows):
            body.append(AssignVector("a", Element(plan.c.a.buffer, _a_element(plan, i, step), 0)))
            for j in range(columns // LANES):
                index = plan.epilogue.raw_index(i, LANES * j)
                body.append(AssignVector(acc(i, j), Element(_output(plan), index, LANES)))
                body += [_multiply_add(i, j), _store(plan, i, j, acc(i, j))]
    return [*zeros, _over_k(plan, body, plan.unroll)]


def _scalar_tile(plan: Plan, rows: int, columns: int) -> list[Statement]:
    """vectorize = 0: the same tile with a local for every element."""
    c = plan.c
    names = {(i, j): f"sum{i}_{j}" for i in range(rows) for j in range(columns)}
    zero = Const(0.0, "f32")
    body: list[Statement] = []
    for step in range(plan.unroll):
        for (i, j), name in names.items():
            place = {PANEL: plan.columns * c.k, K: plan.columns}
            b = Load(c.b.buffer, linear_expr((step * plan.columns + j, place)))
            product = Load(c.a.buffer, _a_index(plan, i, step)) * b
            body.append(_assign(name, Var(name) + product))
    stores: list[Statement] = []
    for (i, j), name in names.items():
        terms, constant = plan.epilogue.raw_index(i, j)
        index = linear_expr((constant, {str(var): factor for var, factor in terms}))
        stores.append(Put((Store(_output(plan), index, Var(name)),)))
    starts = [_assign(name, zero) for name in names.values()]
    return [*starts, _over_k(plan, body, plan.unroll), *stores]


_TILES = {"cache_read": _cached_tile, "cache_write": _written_tile, "vectorize": _scalar_tile}
"""Tiles that the templates do not have, by the primitive that they change."""


def _grid(rows: int, columns: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(rows) for j in range(columns // LANES)]


def _assign(name: str, value: Binary | Const) -> Assign:
    return Assign(((name, "f32"),), (value,))


def _over_k(plan: Plan, body: Sequence[Statement], step: int) -> For:
    return For(K, int32(0), int32(plan.c.k), step, list(body))


def _a_element(plan: Plan, row: int, step: int) -> Affine:
    a = plan.c.a
    terms = ((TILE, plan.rows * a.row), (K, a.column))
    return Affine(terms, a.offset + row * a.row + step * a.column)


def _a_index(plan: Plan, row: int, step: int = 0) -> Expr:
    terms, constant = _a_element(plan, row, step)
    return linear_expr((constant, {str(var): factor for var, factor in terms}))


def _b_vectors(plan: Plan, columns: int, step: int) -> list[Statement]:
    terms = ((PANEL, plan.columns * plan.c.k), (K, plan.columns))
    found: list[Statement] = []
    for j in range(columns // LANES):
        index = Affine(terms, step * plan.columns + LANES * j)
        found.append(AssignVector(f"b{j}", Element(plan.c.b.buffer, index, LANES)))
    return found


def _multiply_add(i: int, j: int) -> AssignVector:
    return AssignVector(acc(i, j), MultiplyAdd("a", f"b{j}", acc(i, j)))


def _store(plan: Plan, i: int, j: int, local: str) -> StoreVector:
    return StoreVector(local, _output(plan), plan.epilogue.raw_index(i, LANES * j), LANES)


def _output(plan: Plan) -> str:
    raw = plan.epilogue.raw
    if raw is None:
        raise BugError("The common matmul has no output for sums.")
    return raw.buffer
