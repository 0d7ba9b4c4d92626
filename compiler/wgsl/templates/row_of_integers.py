"""One row times a matrix in 4 bits, by dot products of bytes: the row becomes integers of 22 bits.

Decoding a value to a float takes more instructions than multiplying it. Here the words stay as they
are: a word's eight values meet a byte of eight activations in two dot products of four. Each 32
activations share a unit, their largest over 2^22, so one is three bytes and off by 2^-23 of the
largest at most. The 32 products are added exactly; what all have in common, scale, unit and zero
point, is applied to their sum.

Each thread makes some eights of activations integers, then the workgroup multiplies what all have
made, and so on to the end of the row. Words of the next step are loaded before those at hand are
used.
"""

from __future__ import annotations

from nnjit_studio.compiler.wgsl.core.document import Dispatch, Shader
from nnjit_studio.compiler.wgsl.core.row_source import Source
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times
from nnjit_studio.compiler.wgsl.templates.block_matrix import COLUMNS, WORD, BlockMatrix
from nnjit_studio.compiler.wgsl.templates.gemv_blocks import Epilogue, Sums, reduced, threads_of
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.matmul_blocks import GROUP, IN_GROUPS

_WORDS = GROUP // WORD
_LARGEST = float((1 << 22) - 1)
_ROUNDING = 3 << 22
"""Added to a float below 2^22 it leaves the nearest integer in the lowest bits, above its own."""
_LEAST = 1e-30
"""Of a unit's largest value: without it a group of zeros would be divided by zero."""
_DIGITS = 3
_LEAST_SUBGROUP = 4
_IN_DIGITS = Sums(
    lambda place, value: f"keep_sum({place}, {value});", lambda place: f"kept_sum({place})"
)
"""Sums take the memory of the digits, which nobody reads by then."""
_SUM_FUNCTIONS = """fn keep_sum(place: u32, sum: vec4<f32>) {
  digits[2u * place] = bitcast<vec2<u32>>(sum.xy);
  digits[2u * place + 1u] = bitcast<vec2<u32>>(sum.zw);
}
fn kept_sum(place: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(vec4<u32>(digits[2u * place], digits[2u * place + 1u]));
}"""
_ADDED = ("own = subgroupAdd(own);", "if (sl == 0u) { added[li / sg] = own; }")
"""A subgroup's part of the total over a made row, where the others find it."""


def check(matrix: BlockMatrix, candidate: GpuCandidate) -> None:
    """Raise :class:`CompileError` where the candidate does not fit the matrix."""
    c = candidate
    wrong = ""
    if matrix.k % GROUP or matrix.block % GROUP or matrix.n % COLUMNS:
        wrong = f"{matrix.k} x {matrix.n} in blocks of {matrix.block} is not in groups of {GROUP}"
    elif (c.x0, c.y0, c.split, c.vec) != (COLUMNS, 1, 1, 1):
        wrong = "x0 must be 4, y0, split and vec 1"
    elif c.r0 not in IN_GROUPS or c.x1 * c.y1 < COLUMNS * c.r0:
        wrong = f"r0 must be of {IN_GROUPS}, and x1 times y1 at least four times as large"
    elif c.x1 & (c.x1 - 1) or c.r1 & (c.r1 - 1) or c.y1 & (c.y1 - 1) or threads_of(c) < GROUP:
        wrong = f"x1, r1 and y1 must be powers of two, threads at least {GROUP}"
    if wrong:
        raise CompileError(f"{c} does not fit: {wrong}.", "Choose another candidate.")


def row_of_integers(
    matrix: BlockMatrix, candidate: GpuCandidate, source: Source, epilogue: Epilogue
) -> Dispatch:
    """The dispatch of 1 x K by K x N.

    Parameters
    ----------
    candidate
        ``x1`` columns of a workgroup, ``r0`` words of a thread in flight, ``y1`` eights of
        activations that a thread makes integers at a time; threads are ``x1 / 4 * r1 / 8``.
        ``x0`` is 4, everything else 1.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    check(matrix, candidate)
    shader = Shader(("subgroups",))
    shader.line("diagnostic(off, subgroup_uniformity);")
    threads, lanes = threads_of(candidate), candidate.x1 // COLUMNS
    made = threads * candidate.y1
    matrix.bind(shader)
    source.declare(shader)
    epilogue.declare(shader)
    shader.workgroup("digits", f"array<vec2<u32>, {_DIGITS * made}>")
    shader.workgroup("units", f"array<f32, {made // _WORDS}>")
    shader.workgroup("totals", f"array<i32, {made // _WORDS}>")
    shader.line(_SUM_FUNCTIONS)
    shader.workgroup("total", f"array<f32, {candidate.x1}>")
    if source.adds:
        shader.workgroup("added", f"array<f32, {threads // _LEAST_SUBGROUP}>")
    body = [
        f"let lane = li % {lanes}u;",
        f"let slice = li / {lanes}u;",
        f"let column = min(wg.x * {lanes}u + lane, {matrix.columns - 1}u);",
        "var acc0 = vec4<f32>();",
        *(["var own = 0.0;"] if source.adds else []),
        *_loop(matrix, candidate, source),
        *(_ADDED if source.adds else []),
        *reduced(candidate, True, _IN_DIGITS),
        "workgroupBarrier();",
        *source.factor(f"max({threads}u / sg, 1u)"),
        *epilogue.lines(candidate),
    ]
    builtins = ", @builtin(subgroup_size) sg: u32, @builtin(subgroup_invocation_id) sl: u32"
    return shader.dispatch(threads, (-(-matrix.n // candidate.x1), 1, 1), body, builtins)


def _loop(matrix: BlockMatrix, c: GpuCandidate, source: Source) -> list[str]:
    """All groups of a thread; a chunk is what the workgroup's threads make integers at a time."""
    threads, together = threads_of(c), c.r0 // _WORDS
    slices = threads // (c.x1 // COLUMNS)
    chunks = -(-matrix.rows // (threads * c.y1))
    more = together * slices
    step = [f"let place{j} = {plus('place', str(j * slices))};" for j in range(together)]
    inner = [f"let place = {plus(times('turn', more), 'slice')};", *step, f"group += {more}u;"]
    for j in range(together):
        inner += [*_held(matrix, j), *_load(matrix, j, slices), *_products(matrix, j)]
    eights = range(c.y1)
    return [
        "var group = slice;",
        *(f"var w{j}_{u} = vec4<u32>();" for j in range(together) for u in range(_WORDS)),
        *(f"var s{j} = {matrix.scale_type}();" for j in range(together)),
        *(f"var z{j} = 0u;" for j in range(together) if matrix.zeros),
        *(f"var {name}{e} = vec4<f32>();" for e in eights for name in ("low", "high")),
        *(f"var added{e} = 0.0;" for e in eights if source.adds),
        *(line for e in eights for line in _eight(matrix, source, _row("0u", e, c), e)),
        *(line for j in range(together) for line in _load(matrix, j, slices)),
        f"for (var chunk = 0u; chunk < {chunks}u; chunk++) {{",
        *(f"  {line}" for e in eights for line in _produce(matrix, source, e, c)),
        *(
            f"  {line}"
            for e in eights
            for line in _eight(matrix, source, _row("(chunk + 1u)", e, c), e)
            if chunks > 1
        ),
        "  workgroupBarrier();",
        f"  for (var turn = 0u; turn < {c.x1 // COLUMNS * c.y1 // c.r0}u; turn++) {{",
        *indented(indented(inner)),
        "  }",
        "  workgroupBarrier();",
        "}",
    ]


def _row(chunk: str, eight: int, c: GpuCandidate) -> str:
    """The row of words whose activations a thread makes integers."""
    threads = threads_of(c)
    return plus(plus(times(chunk, threads * c.y1), "li"), str(eight * threads))


def _eight(matrix: BlockMatrix, source: Source, row: str, eight: int) -> list[str]:
    """Eight activations of a thread; behind the end the last ones."""
    lines = [f"let row = min({row}, {matrix.rows - 1}u);", *source.load("a", "row", "0u")]
    lines += [f"low{eight} = a_lo;", f"high{eight} = a_hi;"]
    lines += [f"added{eight} = a_added;"] if source.adds else []
    return ["{", *indented(lines), "}"]


def _load(matrix: BlockMatrix, j: int, slices: int) -> list[str]:
    """Words of the ``j``-th group from ``group`` on; behind the end those of the last."""
    last = matrix.k // GROUP - 1
    per_block = matrix.block // GROUP
    block = "one" if per_block == 1 else f"one / {per_block}u"
    lines = [f"let one = min({plus('group', str(j * slices))}, {last}u);"]
    lines += [
        f"w{j}_{u} = words[(one * {_WORDS}u + {u}u) * {matrix.columns}u + column];"
        for u in range(_WORDS)
    ]
    lines += [f"let at = {times(block, matrix.across)} + column;", f"s{j} = scales[at];"]
    if matrix.zeros:
        lines.append(f"z{j} = zeros[at];")
    return ["{", *indented(lines), "}"]


def _held(matrix: BlockMatrix, j: int) -> list[str]:
    """The group at hand, out of the way of the next one."""
    lines = [f"let now{j}_{u} = w{j}_{u};" for u in range(_WORDS)]
    lines.append(f"let scale{j} = {matrix.stored(f's{j}')};")
    if matrix.zeros:
        zeros = ", ".join(f"(z{j} >> {8 * c}u) & 255u" for c in range(COLUMNS))
        lines.append(f"let zero{j} = vec4<i32>(vec4<u32>({zeros}));")
    else:
        lines.append(f"let zero{j} = vec4<i32>({int(matrix.zero)});")
    return lines


def _produce(matrix: BlockMatrix, source: Source, eight: int, c: GpuCandidate) -> list[str]:
    """Eight activations of a thread as integers; four threads side by side share a unit.

    The largest is found among the numbers' bits, so that one that is no number makes the unit none.
    """
    lines: list[str] = []
    low, high, added = f"low{eight}", f"high{eight}", f"added{eight}"
    if matrix.rows % (threads_of(c) * c.y1):
        lines = [
            f"let there = {_row('chunk', eight, c)} < {matrix.rows}u;",
            f"let low_there = select(vec4<f32>(), {low}, there);",
            f"let high_there = select(vec4<f32>(), {high}, there);",
        ]
        low, high, added = "low_there", "high_there", f"select(0.0, {added}, there)"
    if source.adds:
        lines.append(f"own += {added};")
    mask = "vec4<u32>(0x7FFFFFFFu)"
    at = plus("li", str(eight * threads_of(c)))
    lines += [
        f"let bits = max(bitcast<vec4<u32>>({low}) & {mask}, bitcast<vec4<u32>>({high}) & {mask});",
        "var top = max(max(bits.x, bits.y), max(bits.z, bits.w));",
        "top = max(top, subgroupShuffleXor(top, 1u));",
        "top = max(top, subgroupShuffleXor(top, 2u));",
        f"let largest = bitcast<f32>(max(top, bitcast<u32>({_LEAST}f)));",
        f"let inverse = vec4<f32>({_LARGEST} / largest);",
        *(
            f"let {name} = {_integers(value)};"
            for name, value in (("first", low), ("second", high))
        ),
        "let four = first + second;",
        "var sum = four.x + four.y + four.z + four.w;",
        "sum += subgroupShuffleXor(sum, 1u);",
        "sum += subgroupShuffleXor(sum, 2u);",
        *_digits(at),
        "if (li % 4u == 0u) {",
        f"  units[({at}) / 4u] = largest / {_LARGEST / matrix.unit};",
        f"  totals[({at}) / 4u] = sum;",
        "}",
    ]
    return ["{", *indented(lines), "}"]


def _integers(value: str) -> str:
    """The nearest integers of four multiples of the unit."""
    added = f"fma({value}, inverse, vec4<f32>({float(_ROUNDING)}))"
    return f"bitcast<vec4<i32>>({added}) - bitcast<vec4<i32>>(vec4<f32>({float(_ROUNDING)}))"


def _digits(at: str) -> list[str]:
    """Three bytes of each integer beside those of its like: even steps of k, then odd ones.

    Bytes change places in pairs of integers, then in pairs of those, which takes a third of the
    instructions of ``pack4xI8``.
    """
    pairs, upper = "vec4<u32>(0x00FF00FFu)", "vec4<u32>(0xFF00FF00u)"
    eight = "vec4<u32>(8u)"
    lines = [
        "let one = bitcast<vec4<u32>>(vec4<i32>(first.x, second.x, first.y, second.y));",
        "let two = bitcast<vec4<u32>>(vec4<i32>(first.z, second.z, first.w, second.w));",
        f"let outer = (one & {pairs}) | ((two << {eight}) & {upper});",
        f"let inner = ((one >> {eight}) & {pairs}) | (two & {upper});",
    ]
    lowest = "({0}.xz & vec2<u32>(0xFFFFu)) | ({0}.yw << vec2<u32>(16u))"
    highest = "(outer.xz >> vec2<u32>(16u)) | (outer.yw & vec2<u32>(0xFFFF0000u))"
    for d, bytes_of in enumerate((lowest.format("outer"), lowest.format("inner"), highest)):
        lines.append(f"digits[({at}) * {_DIGITS}u + {d}u] = {bytes_of};")
    return lines


def _products(matrix: BlockMatrix, j: int) -> list[str]:
    """A group's words times its digits, the highest digit, which has the sign, first."""
    lines = [f"var h{j} = vec4<i32>();"]
    for u in range(_WORDS):
        lines += [
            f"let e{j}_{u} = now{j}_{u} & vec4<u32>(0x0F0F0F0Fu);",
            f"let o{j}_{u} = (now{j}_{u} >> vec4<u32>(4u)) & vec4<u32>(0x0F0F0F0Fu);",
        ]
    for d in reversed(range(_DIGITS)):
        highest = d == _DIGITS - 1
        if not highest:
            lines.append(f"h{j} = h{j} << vec4<u32>(8u);")
        dot = "dot4I8Packed" if highest else "dot4U8Packed"
        for u in range(_WORDS):
            digit = f"d{j}_{u}_{d}"
            at = f"(place{j} * {_WORDS}u + {u}u) * {_DIGITS}u + {d}u"
            lines.append(f"let {digit} = digits[{at}];")
            for c in "xyzw":
                added = f"{dot}(e{j}_{u}.{c}, {digit}.x) + {dot}(o{j}_{u}.{c}, {digit}.y)"
                lines.append(f"h{j}.{c} += {added if highest else f'i32({added})'};")
    value = f"vec4<f32>(h{j} - zero{j} * totals[place{j}])"
    return [*lines, f"acc0 = fma(scale{j} * units[place{j}], {value}, acc0);"]
