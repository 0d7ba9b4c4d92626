"""Scheduled loops to Wasm IR (NNJIT paper, section 4.2 and algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence

from nnjit_studio.compiler.ir.affine import Affine, affine
from nnjit_studio.compiler.ir.loops import (
    BEGIN,
    END,
    Add,
    Apply,
    Assign,
    AssignVector,
    ByteDot,
    Dot,
    Element,
    EveryOther,
    For,
    Let,
    MultiplyAdd,
    PairSums,
    Put,
    Reduce,
    Scheduled,
    Statement,
    StoreVector,
    Widened,
)
from nnjit_studio.compiler.ir.tensor_ir import Const, Expr, Program, whole
from nnjit_studio.compiler.wasm import half, ir
from nnjit_studio.compiler.wasm.context import WASM_TYPE, Context
from nnjit_studio.compiler.wasm.ir import Function, IfElse, LocalGet, LocalSet, Loop, Node, Op, i32
from nnjit_studio.compiler.wasm.scalar import index, scalar, to_half, typed
from nnjit_studio.compiler.wasm.vector import BYTE_RANGES, low_bytes, vector
from nnjit_studio.compiler.wasm.vector_math import constant
from nnjit_studio.records import TIERS

_STORES = {
    "f32": "f32.store", "f16": "i32.store16", "i64": "i64.store", "i32": "i32.store",
    "i8": "i32.store8", "u8": "i32.store8", "bool": "i32.store8",
}  # fmt: skip


def lower(
    program: Program,
    scheduled: Scheduled,
    tier: str,
    any_size: bool = False,
    keep_loops: bool = False,
) -> Function:
    """Wasm IR of a scheduled program: ``run(pointers..., begin, end)``.

    With ``any_size`` no loop is taken to run at least once: its bounds may become parameters. With
    ``keep_loops`` those of one turn or none stay too, which other sizes may run more often.
    """
    return _lowered(program, scheduled, tier, any_size, keep_loops).function


def lower_in_each_tier(
    program: Program, loops: Sequence[Scheduled], keep_loops: bool
) -> list[Function]:
    """A kernel for any size by its loops in each of :data:`TIERS`, for ``fuse_multiply_add``.

    Where the loops are the same and the tier decides on nothing else, they are lowered once.
    """
    first = _lowered(program, loops[0], TIERS[0], True, keep_loops)
    made, own = [first.function], first.function
    for tier, scheduled in zip(TIERS[1:], loops[1:], strict=True):
        if scheduled is loops[0] and not first.tier_decides:
            given = list(own.params), list(own.locals), dict(own.names), list(own.body)
            made.append(Function(*given))
        else:
            made.append(_lowered(program, scheduled, tier, True, keep_loops).function)
    return made


def _lowered(
    program: Program, scheduled: Scheduled, tier: str, any_size: bool, keep_loops: bool
) -> Context:
    names = [b.name for b in program.buffers]
    function = Function([*names, "begin", "end"])
    ctx = Context(program, function, tier == "relaxed-simd", index)
    ctx.any_size, ctx.keep_loops = any_size, keep_loops
    extent = scheduled.parallel_extent
    ctx.bind_parameter(BEGIN, len(names), 0, extent - 1)
    ctx.bind_parameter(END, len(names) + 1, 0, extent)
    with ctx.into(function.body):
        body = _block(ctx, scheduled.body)
    function.body = [*ctx.root.prefix, *body]
    return ctx


def _block(ctx: Context, statements: Sequence[Statement]) -> list[Node]:
    with ctx.into([]) as out:
        for statement in statements:
            _statement(ctx, statement)
    return out


def _statement(ctx: Context, statement: Statement) -> None:
    ctx.forget()
    if isinstance(statement, AssignVector):
        _assign_vector(ctx, statement)
    elif isinstance(statement, StoreVector):
        _store_vector(ctx, statement)
    elif isinstance(statement, Put):
        _put(ctx, statement)
    elif isinstance(statement, Assign):
        _assign(ctx, statement)
    elif isinstance(statement, Reduce):
        _reduce(ctx, statement)
    elif isinstance(statement, For):
        _for(ctx, statement)
    elif isinstance(statement, Let):
        _let(ctx, statement.var, statement.value, statement.body)
    else:
        condition = scalar(ctx, statement.condition)
        then, otherwise = (_branch(ctx, b) for b in (statement.then, statement.otherwise))
        ctx.out.append(IfElse(condition, then, otherwise))


def _branch(ctx: Context, statements: Sequence[Statement]) -> list[Node]:
    with ctx.branch() as out:
        out.extend(_block(ctx, statements))
    return out


def _accumulator(ctx: Context, name: str, dtype: str, lanes: bool) -> int:
    local = ctx.accumulators.get(name)
    if local is None:
        local = ctx.local("v128" if lanes else WASM_TYPE[dtype], name)
        ctx.accumulators[name] = local
        ctx.accumulator_dtypes[name] = dtype
        if lanes:
            ctx.vectors.add(name)
    return local


def _assign_vector(ctx: Context, statement: AssignVector) -> None:
    value = statement.value
    local = _accumulator(ctx, statement.local, statement.dtype, True)
    if isinstance(value, MultiplyAdd):
        a, b, c = (LocalGet(ctx.accumulators[name]) for name in (value.a, value.b, value.c))
        if ctx.has_relaxed:  # decides nothing: `fuse_multiply_add` makes the same of the other
            node: Node = Op("f32x4.relaxed_madd", (a, b, c))
        else:
            node = Op("f32x4.add", (c, Op("f32x4.mul", (a, b))))
    elif isinstance(value, Element):
        node = _element(ctx, value)
    elif isinstance(value, Add):
        terms = (LocalGet(ctx.accumulators[name]) for name in (value.a, value.b))
        node = Op("f32x4.add", tuple(terms))
    elif isinstance(value, Dot):
        a, b, c = (LocalGet(ctx.accumulators[name]) for name in (value.a, value.b, value.c))
        node = Op("i32x4.add", (c, Op("i32x4.dot_i16x8_s", (a, b))))
    elif isinstance(value, ByteDot):
        args = tuple(LocalGet(ctx.accumulators[name]) for name in (value.a, value.b, value.c))
        node = Op("i32x4.relaxed_dot_i8x16_i7x16_add_s", args)
    elif isinstance(value, Apply):
        node = Op(value.op, tuple(LocalGet(ctx.accumulators[name]) for name in value.args))
    elif isinstance(value, PairSums):
        pair = LocalGet(ctx.accumulators[value.low]), LocalGet(ctx.accumulators[value.high])
        even, odd = Op("i32x4.shuffle_0246", pair), Op("i32x4.shuffle_1357", pair)
        lanes = "f32x4" if statement.dtype == "f32" else "i32x4"
        node = Op(f"{lanes}.add", (even, odd))
    elif isinstance(value, EveryOther):
        pair = LocalGet(ctx.accumulators[value.low]), LocalGet(ctx.accumulators[value.high])
        node = Op(f"i32x4.shuffle_{'1357' if value.odd else '0246'}", pair)
    elif isinstance(value, Widened):
        node = _widened(ctx, value)
    else:
        node = constant(0.0)
    ctx.out.append(LocalSet(local, node))


def _element(ctx: Context, element: Element) -> Node:
    buffer, lanes = element.buffer, element.lanes
    if ctx.dtypes[buffer] == "f16":
        return _half_element(ctx, element)
    address = ctx.address(buffer, element.index)
    if lanes == 0:
        return Op("f32x4.splat", (ir.Load("f32.load", address, 0, buffer),))
    if lanes == 4:
        return ir.Load("v128.load", address, 0, buffer)
    if lanes == 1:
        return ir.Load("v128.load32_zero", address, 0, buffer)
    pair = ir.Load("v128.load64_zero", address, 0, buffer)
    if lanes == 2:
        return pair
    third = ctx.address(buffer, Affine(element.index.terms, element.index.constant + 2))
    return ir.Load("v128.load32_lane", third, 0, buffer, pair, 2)


def _half_element(ctx: Context, element: Element) -> Node:
    """An element of a weight in f16, widened: weights are finite."""
    buffer, lanes = element.buffer, element.lanes
    address = ctx.address(buffer, element.index)
    if lanes == 0:
        pairs = ir.Load("v128.load16_splat", address, 0, buffer)
        return half.finite(pairs, half.FROM_THE_TOP)
    if lanes == 4:
        return half.finite(ir.Load("v128.load16x4_s", address, 0, buffer), half.FROM_THE_BOTTOM)
    terms, first = element.index
    low: Node = constant(0.0)
    for lane in range(lanes):
        at = ctx.address(buffer, Affine(terms, first + lane))
        low = ir.Load("v128.load16_lane", at, 0, buffer, low, 2 * lane + 1)
    return half.finite(low, half.FROM_THE_TOP)


def _widened(ctx: Context, value: Widened) -> Node:
    buffer = value.buffer
    suffix = "s" if ctx.dtypes[buffer] == "i8" else "u"
    address = ctx.address(buffer, value.index)
    if not value.splat:
        return ir.Load(f"v128.load8x8_{suffix}", address, 0, buffer)
    quad = ir.Load("v128.load32_splat", address, 0, buffer)
    return Op(f"i16x8.extend_low_i8x16_{suffix}", (quad,))


def _store_vector(ctx: Context, statement: StoreVector) -> None:
    buffer, lanes = statement.buffer, statement.lanes
    address = ctx.address(buffer, statement.index)
    value = LocalGet(ctx.accumulators[statement.local])
    if statement.lane >= 0:
        lane = statement.lane
        ctx.out.append(ir.Store("v128.store32_lane", address, value, 0, buffer, lane))
        return
    if lanes == 4:
        ctx.out.append(ir.Store("v128.store", address, value, 0, buffer))
        return
    if lanes >= 2:
        ctx.out.append(ir.Store("v128.store64_lane", address, value, 0, buffer, 0))
    if lanes != 2:
        terms, offset = statement.index
        last = ctx.address(buffer, Affine(terms, offset + lanes - 1))
        ctx.out.append(ir.Store("v128.store32_lane", last, value, 0, buffer, lanes - 1))


def _put(ctx: Context, statement: Put) -> None:
    along = statement.along
    values: list[Node] = []
    for store in statement.stores:
        dtype = ctx.dtypes[store.buffer]
        if along and dtype in BYTE_RANGES:
            value = low_bytes(ctx, store.value, along)
        else:
            value = vector(ctx, store.value, along) if along else typed(ctx, store.value, dtype)
        if len(statement.stores) > 1:
            value = ctx.keep("v128" if along else WASM_TYPE[dtype], value)
        values.append(value)
    for store, value in zip(statement.stores, values, strict=True):
        dtype, op, lane = ctx.dtypes[store.buffer], "v128.store", -1
        if along and dtype == "f16":
            halves = ctx.keep_vector(half.from_float(ctx.keep_vector, value))
            value, op, lane = Op("i16x8.narrow_i32x4_u", (halves, halves)), "v128.store64_lane", 0
        elif along and dtype in BYTE_RANGES:
            op, lane = "v128.store32_lane", 0
        elif not along:
            value, op = to_half(ctx, value) if dtype == "f16" else value, _STORES[dtype]
        address = ctx.address(store.buffer, affine(store.index))
        ctx.out.append(ir.Store(op, address, value, 0, store.buffer, lane))


def _assign(ctx: Context, statement: Assign) -> None:
    along = statement.along
    values: list[Node] = []
    for (_, dtype), expr in zip(statement.locals, statement.values, strict=True):
        value = vector(ctx, expr, along) if along else typed(ctx, expr, dtype)
        if len(statement.locals) > 1:
            value = ctx.keep("v128" if along else WASM_TYPE[dtype], value)
        values.append(value)
    for (name, dtype), value in zip(statement.locals, values, strict=True):
        ctx.out.append(LocalSet(_accumulator(ctx, name, dtype, bool(along)), value))


def _reduce(ctx: Context, statement: Reduce) -> None:
    lanes = LocalGet(ctx.accumulators[statement.vector])
    dtype = ctx.accumulator_dtypes[statement.local]
    parts = [Op(f"{dtype}x4.extract_lane", (lanes,), lane) for lane in range(4)]
    op = f"{dtype}.{statement.op}"
    pairs = Op(op, (Op(op, (parts[0], parts[1])), Op(op, (parts[2], parts[3]))))
    local = ctx.accumulators[statement.local]
    ctx.out.append(LocalSet(local, Op(op, (LocalGet(local), pairs))))


def _let(ctx: Context, var: str, value: Expr, body: list[Statement]) -> None:
    local = ctx.keep("i32", index(ctx, value), var).local
    ctx.known[var] = ctx.bounds(value)
    with ctx.enter(var, local, 0, body) as scope:
        nodes = _block(ctx, body)
    ctx.out.extend([*scope.prefix, *nodes])


def _for(ctx: Context, loop: For) -> None:
    if isinstance(loop.begin, Const) and isinstance(loop.end, Const) and not ctx.keep_loops:
        trips = -(-(whole(loop.end.value) - whole(loop.begin.value)) // loop.step)
        if trips <= 0:
            return
        if trips == 1:
            _let(ctx, loop.var, loop.begin, loop.body)
            return
    low, last = ctx.bounds(loop.begin)[0], ctx.bounds(loop.end)[1] - 1
    begin, end = index(ctx, loop.begin), index(ctx, loop.end)
    if not isinstance(end, (ir.Const, LocalGet)):
        end = ctx.keep("i32", end)
    local = ctx.local("i32", loop.var)
    ctx.out.append(LocalSet(local, begin))
    # The larger of both, also where they are numbers at several sizes.
    ctx.known[loop.var] = low, (low + last + abs(low - last)) // 2
    with ctx.enter(loop.var, local, loop.step, loop.body) as scope:
        nodes = _block(ctx, loop.body)
    step = LocalSet(local, Op("i32.add", (LocalGet(local), i32(loop.step))))
    again = Op("i32.lt_s", (LocalGet(local), end))
    nodes = [*scope.header, Loop([*scope.prefix, *nodes, *scope.latch, step], again)]
    if not ctx.any_size and ctx.bounds(loop.begin)[1] < ctx.bounds(loop.end)[0]:
        ctx.out.extend(nodes)
    else:
        ctx.out.append(IfElse(Op("i32.lt_s", (LocalGet(local), end)), nodes))
