"""Matrix times few rows, the matrix in 4 or 8 bits: decoded in registers, reduced over a workgroup.

Words lie as the importer writes them, rows of ``N``, a word eight neighbours in k, of 8 bits
four: then two words stand for one below. A thread reads four columns' words with one load of 16
bytes and meets eight activations with them; threads side by side read neighbouring columns, the
rest of the workgroup other word rows. So a load of activations serves 32 weights, no activation is
read twice by a subgroup, and every weight of a large matrix can be in flight at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from nnjit_studio.compiler.wgsl.core.document import Dispatch, Shader
from nnjit_studio.compiler.wgsl.core.row_source import Source
from nnjit_studio.compiler.wgsl.core.syntax import plus, times
from nnjit_studio.compiler.wgsl.templates.block_matrix import (
    COLUMNS,
    F16,
    WORD,
    BlockMatrix,
    decoded,
    halves,
)
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate

_SUMS_BYTES = 8192
"""Workgroup memory for sums at a time, half of what every device has; more threads take more."""


class Epilogue(Protocol):
    """The destination of the sums."""

    def declare(self, shader: Shader) -> None:
        """Bind buffers, add functions."""

    def lines(self, candidate: GpuCandidate) -> list[str]:
        """Run by every thread, behind a barrier: ``total`` holds ``y0`` rows of ``x1`` sums."""


@dataclass(frozen=True)
class Sums:
    """Workgroup memory of sums: one line that keeps a sum, and one that is kept, by its place."""

    keep: Callable[[str, str], str]
    kept: Callable[[str], str]


_SUMS = Sums(lambda place, value: f"sums[{place}] = {value};", lambda place: f"sums[{place}]")


@dataclass(frozen=True)
class Stored:
    """The sums as they are, rows of ``n``."""

    buffer: str
    n: int
    rows: int = 1

    def declare(self, shader: Shader) -> None:
        shader.bind(self.buffer, "result", f"array<f32, {self.rows * self.n}>", "read_write")

    def lines(self, candidate: GpuCandidate) -> list[str]:
        x1, y0 = candidate.x1, candidate.y0
        return [
            f"for (var t = li; t < {x1 * y0}u; t += {x1 // 4 * (candidate.r1 // 8)}u) {{",
            f"  let n = wg.x * {x1}u + t % {x1}u;",
            f"  let m = wg.y * {y0}u + t / {x1}u;",
            f"  if (n < {self.n}u) {{ result[m * {self.n}u + n] = total[t]; }}",
            "}",
        ]


def threads_of(candidate: GpuCandidate) -> int:
    """Threads of a workgroup: word rows of a step side by side, times columns by four."""
    return candidate.x1 // COLUMNS * (candidate.r1 // WORD)


def check(matrix: BlockMatrix, candidate: GpuCandidate, rows: int) -> None:
    """Raise :class:`CompileError` where the candidate does not fit the matrix."""
    c = candidate
    wrong = ""
    if matrix.n % COLUMNS or (matrix.stride or matrix.n) % COLUMNS:
        wrong = f"{matrix.n} columns are no multiple of {COLUMNS}"
    elif matrix.k % matrix.block or matrix.block % WORD:
        wrong = f"blocks of {matrix.block} do not tile {matrix.k}"
    elif c.x0 != COLUMNS or c.vec != COLUMNS or c.split != 1 or c.y1 != c.y0:
        wrong = "x0 and vec must be 4, split 1 and y1 as y0"
    elif rows % c.y0:
        wrong = f"y0={c.y0} does not divide {rows} rows"
    elif c.x1 & (c.x1 - 1) or c.r1 & (c.r1 - 1) or c.r1 < WORD:
        wrong = "x1 and r1 must be powers of two, r1 at least 8"
    if wrong:
        raise CompileError(f"{c} does not fit: {wrong}.", "Choose another candidate.")


def gemv_blocks(
    matrix: BlockMatrix,
    candidate: GpuCandidate,
    source: Source,
    epilogue: Epilogue,
    rows: int = 1,
    subgroups: bool = False,
    decoding: str = "bits",
) -> Dispatch:
    """The dispatch of ``rows`` x K by K x N.

    Parameters
    ----------
    candidate
        ``x1`` columns of a workgroup, ``y0`` rows that share a decoded word, ``r0`` words
        that a thread loads before it uses them, ``r1`` the depth in k of all threads'
        words side by side; ``x0`` and ``vec`` are 4, ``y1`` is ``y0``.
    subgroups
        Whether sums go through subgroup shuffles first, else all through workgroup memory. A
        subgroup is taken to be neighbouring threads, a power of two of them: WGSL does not
        promise it, implementations do it.
    decoding
        One of :data:`block_matrix.DECODINGS`, or :data:`block_matrix.F16`.

    Raises
    ------
    CompileError
        When the candidate does not fit.
    """
    check(matrix, candidate, rows)
    enabled = {"f16": decoding == F16, "subgroups": subgroups}
    shader = Shader(name for name, wanted in enabled.items() if wanted)
    if subgroups:
        shader.line("diagnostic(off, subgroup_uniformity);")
    threads, y0 = threads_of(candidate), candidate.y0
    matrix.bind(shader)
    source.declare(shader)
    epilogue.declare(shader)
    together = _rows_together(candidate)
    shader.workgroup("sums", f"array<vec4<f32>, {threads * together}>")
    shader.workgroup("total", f"array<f32, {candidate.x1 * y0}>")
    lanes, side = candidate.x1 // COLUMNS, candidate.r1 // WORD
    if source.adds:
        shader.workgroup("added", f"array<f32, {side}>")
    body = [
        f"let lane = li % {lanes}u;",
        f"let column = {_column(matrix, lanes)};",
        *(f"var acc{i} = vec4<f32>();" for i in range(y0)),
        *(["var own = 0.0;"] if source.adds else []),
        *_loop(matrix, candidate, source, decoding),
        *([f"if (lane == 0u) {{ added[li / {lanes}u] = own; }}"] if source.adds else []),
        *reduced(candidate, subgroups),
        "workgroupBarrier();",
        *source.factor(f"{side}u"),
        *epilogue.lines(candidate),
    ]
    grid = (-(-matrix.n // matrix.batches // candidate.x1), rows // y0, matrix.batches)
    lane = ", @builtin(subgroup_size) sg: u32, @builtin(subgroup_invocation_id) sl: u32"
    return shader.dispatch(threads, grid, body, lane if subgroups else "")


def _column(matrix: BlockMatrix, lanes: int) -> str:
    """A thread's vector of columns; behind the end of its product the last ones."""
    own = matrix.columns // matrix.batches
    column = f"min(wg.x * {lanes}u + lane, {own - 1}u)"
    return column if matrix.batches == 1 else f"wg.z * {own}u + {column}"


def _loop(matrix: BlockMatrix, candidate: GpuCandidate, source: Source, decoding: str) -> list[str]:
    """All word rows of a thread, ``r0`` at a time, then those that are left one by one."""
    side, unroll = candidate.r1 // WORD, candidate.r0
    lines = [f"var row = li / {candidate.x1 // COLUMNS}u;"]
    if matrix.rows >= unroll * side:
        last = (unroll - 1) * side
        lines += [
            f"for (; row + {last}u < {matrix.rows}u; row += {unroll * side}u) {{",
            *_step(matrix, candidate, source, decoding, unroll),
            "}",
        ]
    if matrix.rows < unroll * side or matrix.rows % (unroll * side):
        lines += [
            f"for (; row < {matrix.rows}u; row += {side}u) {{",
            *_step(matrix, candidate, source, decoding, 1),
            "}",
        ]
    return lines


def _step(
    matrix: BlockMatrix, candidate: GpuCandidate, source: Source, decoding: str, unroll: int
) -> list[str]:
    """Loads of ``unroll`` words first, so that they are in flight together."""
    side, per_block = candidate.r1 // WORD, matrix.block // WORD
    lines: list[str] = []
    for u in range(unroll):
        lines += [
            f"let row{u} = row + {u * side}u;",
            *_words(matrix, u),
            f"let at{u} = row{u} / {per_block}u * {matrix.across}u + column;",
            f"let s{u} = scales[at{u}];",
        ]
        if matrix.zeros:
            lines.append(f"let z{u} = zeros[at{u}];")
    for u in range(unroll):
        for i in range(candidate.y0):
            lines += source.load(f"a{u}_{i}", f"row{u}", f"(wg.y * {candidate.y0}u + {i}u)")
            lines += [f"own += a{u}_{i}_added;"] if source.adds else []
    for u in range(unroll):
        lines += _products(matrix, candidate.y0, decoding, u)
    return [f"  {line}" for line in lines]


def _words(matrix: BlockMatrix, u: int) -> Iterator[str]:
    for p, word in enumerate(_names(matrix, u)):
        row = times(f"row{u}", matrix.columns * matrix.parts)
        yield f"let {word} = words[{plus(row, str(p * matrix.columns))} + column];"


def _names(matrix: BlockMatrix, u: int) -> list[str]:
    """Of the words of eight values."""
    return [f"w{u}", f"v{u}"][: matrix.parts]


def _products(matrix: BlockMatrix, rows: int, decoding: str, u: int) -> list[str]:
    """Four columns' words times eight activations of each row, added to ``acc``."""
    lines = [
        f"let scale{u} = {matrix.scale(f's{u}')};",
        f"let zero{u} = {matrix.offset(f'z{u}', decoding)};",
    ]
    made = _in_halves(rows, u) if decoding == F16 else _in_floats(matrix, rows, u, decoding)
    return [*lines, *made, *(f"acc{i} = fma(scale{u}, p{u}_{i}, acc{i});" for i in range(rows))]


def _in_floats(matrix: BlockMatrix, rows: int, u: int, decoding: str) -> list[str]:
    lines: list[str] = []
    values: list[tuple[str, int]] = []
    for p, (word, name) in enumerate(zip(_names(matrix, u), "qr", strict=False)):
        made, found = decoded(decoding, word, f"{name}{u}_", matrix.bits)
        lines += made
        values += [(value, p * matrix.per_word + k) for value, k in found]
    lines += [f"var p{u}_{i} = vec4<f32>();" for i in range(rows)]
    for value, k in values:
        lines.append(f"let q{u}_{k} = {value} - zero{u};")
        for i in range(rows):
            a = f"a{u}_{i}_{'lo' if k < 4 else 'hi'}.{'xyzw'[k % 4]}"
            lines.append(f"p{u}_{i} = fma(q{u}_{k}, vec4<f32>({a}), p{u}_{i});")
    return lines


def _in_halves(rows: int, u: int) -> list[str]:
    """Two steps of k at a time in f16; what a word adds up to is widened."""
    lines = [f"let zeros{u} = vec4<f16>(zero{u});"]
    lines += [f"var h{u}_{i}_{c} = vec2<f16>();" for i in range(rows) for c in "xyzw"]
    for k in range(WORD // 2):
        part = "xyzw"[k]
        lines.append(f"let g{u}_{k} = {halves(f'w{u}', k)};")
        for i in range(rows):
            pair = f"a{u}_{i}_lo.{part}, a{u}_{i}_hi.{part}"
            lines.append(f"let b{u}_{i}_{k} = vec2<f16>(vec2<f32>({pair}));")
        for c in "xyzw":
            value = f"bitcast<vec2<f16>>(g{u}_{k}.{c}) - zeros{u}.{c}{c}"
            lines.append(f"let q{u}_{k}{c} = {value};")
            lines += [
                f"h{u}_{i}_{c} = fma(q{u}_{k}{c}, b{u}_{i}_{k}, h{u}_{i}_{c});" for i in range(rows)
            ]
    for i in range(rows):
        sums = ", ".join(f"f32(h{u}_{i}_{c}.x) + f32(h{u}_{i}_{c}.y)" for c in "xyzw")
        lines.append(f"let p{u}_{i} = vec4<f32>({sums});")
    return lines


def _rows_together(candidate: GpuCandidate) -> int:
    """Rows whose sums are in workgroup memory at once."""
    return max(1, min(candidate.y0, _SUMS_BYTES // (16 * threads_of(candidate))))


def reduced(candidate: GpuCandidate, subgroups: bool, memory: Sums = _SUMS) -> list[str]:
    """Sums of all threads of a column into ``total``; ``memory`` is that of by-subgroup sums."""
    lines: list[str] = []
    if subgroups:
        lines.append(f"let wide = min(sg, {threads_of(candidate)}u);")
    for first in range(0, candidate.y0, _rows_together(candidate)):
        rows = range(first, min(first + _rows_together(candidate), candidate.y0))
        if first:
            lines.append("workgroupBarrier();")
        by_memory = _by_memory(candidate, rows)
        part = _by_subgroups(candidate, rows, memory) if subgroups else by_memory
        found = _finish_rows(candidate, rows, memory)
        lines += ["{", *part, "workgroupBarrier();", *found, "}"]
    return lines


def _finish_rows(candidate: GpuCandidate, rows: range, memory: Sums) -> list[str]:
    lanes, threads = candidate.x1 // COLUMNS, threads_of(candidate)
    lines = [f"if (li < {lanes}u) {{"]
    for slot, i in enumerate(rows):
        at = memory.kept(f"li + j * {lanes}u + {slot * threads}u")
        lines += [
            f"  var sum{i} = vec4<f32>();",
            f"  for (var j = 0u; j < count; j++) {{ sum{i} += {at}; }}",
        ]
        first = i * candidate.x1
        lines += [f"  total[li * 4u + {first + c}u] = sum{i}.{'xyzw'[c]};" for c in range(COLUMNS)]
    return [*lines, "}"]


def _by_memory(candidate: GpuCandidate, rows: range) -> list[str]:
    """At most eight sums of each column are left."""
    lanes, side = candidate.x1 // COLUMNS, candidate.r1 // WORD
    threads, left = lanes * side, min(8, side)
    places = [f"sums[li + {slot * threads}u]" for slot in range(len(rows))]
    lines = [f"{place} = acc{i};" for place, i in zip(places, rows, strict=True)]
    lines.append("workgroupBarrier();")
    count = lanes * left
    if threads > count:
        lines.append(f"if (li < {count}u) {{")
        for slot, place in enumerate(places):
            lines.append(
                f"  for (var j = {count}u; j < {threads}u; j += {count}u) "
                f"{{ {place} += sums[li + j + {slot * threads}u]; }}"
            )
        lines.append("}")
    return [*lines, f"const count = {left}u;"]


def _by_subgroups(candidate: GpuCandidate, rows: range, memory: Sums) -> list[str]:
    """One sum of each column is left of a subgroup, or of its columns' threads if they are more."""
    lanes, threads = candidate.x1 // COLUMNS, threads_of(candidate)
    lines = [
        f"for (var d = {lanes}u; d < wide; d <<= 1u) {{",
        *(f"  acc{i} += subgroupShuffleXor(acc{i}, d);" for i in rows),
        "}",
        f"let group = max(wide, {lanes}u);",
        f"let count = {threads}u / group;",
        f"if (sl < {lanes}u) {{",
    ]
    for slot, i in enumerate(rows):
        place = f"li / group * {lanes}u + lane + {slot * threads}u"
        lines.append(f"  {memory.keep(place, f'acc{i}')}")
    return [*lines, "}"]
