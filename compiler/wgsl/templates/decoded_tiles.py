"""A matrix of 4 or 8 bits as the operand B of a product by tiles, decoded as it is fetched.

Words and scales wait in registers while the tile before is multiplied, as elements of other
matrices do. Where a tile has fewer words than its workgroup threads, several threads read one
word, each for its steps of k: a load that all have is no extra traffic, a thread without work is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nnjit_studio.compiler.recognize.contraction import Contraction
from nnjit_studio.compiler.wgsl.core.document import Shader
from nnjit_studio.compiler.wgsl.core.operand import Fetch, sides
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times
from nnjit_studio.compiler.wgsl.templates.block_matrix import COLUMNS, WORD, BlockMatrix, decoded
from nnjit_studio.errors import CompileError
from nnjit_studio.records.gpu_candidate import GpuCandidate


@dataclass(frozen=True)
class DecodedFetch(Fetch):
    """How a workgroup fetches a tile; ``per_k`` steps of a word are decoded by one thread."""

    matrix: BlockMatrix

    @property
    def _parts(self) -> int:
        """Threads that share a word."""
        return self.matrix.per_word // self.per_k

    def bind(self, shader: Shader, argument: Callable[[str], str]) -> None:
        self.matrix.bind(shader)

    def declare(self) -> list[str]:
        kinds = {"w": "vec4<u32>", "s": self.matrix.scale_type}
        if self.matrix.zeros:
            kinds["z"] = "u32"
        return [
            f"var {name}B{q} = {kind}();" for q in range(self.turns) for name, kind in kinds.items()
        ]

    def places(self, group: str) -> list[str]:
        across, lines = self.extent // COLUMNS, []
        batch = [times(var, stride // COLUMNS) for var, stride in self.side.batch]
        for q in range(self.turns):
            piece = f"({plus('li', str(q * self.threads))})"
            k = f"{piece} / {across}u"
            if self._partial(q):  # threads that have nothing to fetch read what others read
                k = f"min({k}, {self.depth // self.per_k - 1}u)"
            column = plus(times(group, across), f"ownB{q}")
            column = f"min({column}, {self.side.extent // COLUMNS - 1}u)"
            lines += [
                f"let kB{q} = {k};",
                f"let ownB{q} = {piece} % {across}u;",
                f"let columnB{q} = {plus(*batch, column)};",
            ]
        return lines

    def fetch(self, step: str) -> list[str]:
        m, lines = self.matrix, []
        for q in range(self.turns):
            k = plus(times(step, self.depth // self.per_k), f"kB{q}")
            row = f"({k}) / {self._parts}u" if self._parts > 1 else k
            if m.k % self.depth:  # what is behind the end meets zeros of A
                row = f"min({row}, {m.k // m.per_word - 1}u)"
            body = [
                f"let row = {row};",
                f"wB{q} = words[row * {m.columns}u + columnB{q}];",
                f"let at = row / {m.block // m.per_word}u * {m.across}u + columnB{q};",
                f"sB{q} = scales[at];",
            ]
            if m.zeros:
                body.append(f"zB{q} = zeros[at];")
            lines += ["{", *indented(body), "}"]
        return lines

    def store(self, stage: str) -> list[str]:
        lines = []
        for q in range(self.turns):
            row = times(f"kB{q}", self.per_k * self.pitch)
            word = f"wB{q}"
            body = [f"let at = {plus(stage, row, f'ownB{q}')};"]
            if self._parts > 1:
                shift = f"kB{q} % {self._parts}u * {self.matrix.bits * self.per_k}u"
                body.append(f"let word = wB{q} >> vec4<u32>({shift});")
                word = "word"
            body += [
                f"let scale = {self.matrix.scale(f'sB{q}')};",
                f"let zero = {self.matrix.offset(f'zB{q}', 'bits')};",
            ]
            for value, k in decoded("bits", word, "", self.matrix.bits)[1][: self.per_k]:
                place = plus("at", str(k * self.pitch))
                body.append(f"tileB[{place}] = ({value} - zero) * scale;")
            lines += self._guarded(q, body)
        return lines


def decoded_of(c: Contraction, matrix: BlockMatrix, candidate: GpuCandidate) -> DecodedFetch:
    """The way to fetch ``x1`` columns by ``r1`` steps of k.

    Raises
    ------
    CompileError
        When a thread's columns, its depth, or the matrix are not in whole vectors and words.
    """
    units = (candidate.x0, COLUMNS), (c.n, COLUMNS), (matrix.block, WORD), (candidate.r1, WORD)
    if any(size % unit for size, unit in units):
        raise CompileError(
            f"{candidate} does not fit: columns or depth are not in whole vectors and words.",
            "Choose another candidate.",
        )
    depth, per_k = candidate.r1, matrix.per_word
    while per_k > 1 and depth // per_k * (candidate.x1 // COLUMNS) < candidate.threads:
        per_k //= 2
    side = sides(c)[1]
    return DecodedFetch(
        side, candidate.x1, depth, candidate.threads, COLUMNS, per_k, COLUMNS, matrix
    )
