"""The walk of many queries over K and V: how a workgroup's threads fetch tiles of keys.

Both lie in the same workgroup memory in turn, K with every fourth key side by side. Keys that lie
side by side in memory, as in a cache, are fetched as blocks of four keys by four elements of the
head and turned in registers: a quarter of the loads, of f16 whole words.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.compiler.recognize.attention import Attention
from nnjit_studio.compiler.wgsl.core.syntax import indented, plus, times
from nnjit_studio.compiler.wgsl.templates.attention.rows import Rows
from nnjit_studio.records.gpu_candidate import GpuCandidate
from nnjit_studio.space.webgpu.attention import QUAD, AttentionTile


@dataclass(frozen=True)
class Walk:
    """The lines that fetch and store tiles."""

    a: Attention
    c: GpuCandidate
    tile: AttentionTile
    k: Rows
    """With ``blocks`` a row for each element of the head, else for each key."""
    v: Rows
    blocks: bool

    @property
    def steps(self) -> int:
        """Tiles of keys that a workgroup walks over."""
        return -(-self.a.keys // (self.c.x1 * self.c.split))

    @property
    def ragged(self) -> bool:
        """Whether some tiles reach behind the last key."""
        return self.steps * self.c.x1 * self.c.split != self.a.keys

    def _place(self, rows: Rows, turn: int) -> tuple[list[str], str, str]:
        """A thread's piece of a tile: its key and quad, neighbours where memory has them so."""
        c, t = self.c, self.tile
        piece = plus("li", str(turn * c.threads))
        piece = f"({piece})" if turn else piece
        by_key = rows.along != 1
        key, quad = (f"{piece} % {c.x1}u", f"{piece} / {c.x1}u")
        if not by_key:
            key, quad = f"{piece} / {t.quads}u", f"{piece} % {t.quads}u"
        return [f"let key = {key};", f"let quad = {quad};"], "key", "quad"

    def _piece(self, rows: Rows, tile: str) -> str:
        """Where it is in global memory, zero behind the last key of V, any number of K."""
        key = plus(times(tile, self.c.x1), "key")
        if not self.ragged:
            return rows.quad(f"({key})", "quad")
        value = rows.quad(f"min({key}, {self.a.keys - 1}u)", "quad")
        if rows is self.v:
            value = f"select(vec4<f32>(), {value}, {key} < {self.a.keys}u)"
        return value

    @property
    def _block_turns(self) -> int:
        """Blocks of a tile of K that a thread fetches."""
        return -(-self.tile.turns // QUAD)

    @property
    def ahead_vectors(self) -> int:
        return max(self.tile.turns, QUAD * self._block_turns * self.blocks)

    def _block(self, turn: int, tile: str) -> list[str]:
        """A thread's block of K: ``row<e>`` of four keys each, one for each element of the head.
        Threads that have none load another's: a load under a condition would be waited for."""
        c, t = self.c, self.tile
        across = c.x1 // QUAD
        block = plus("li", str(turn * c.threads))
        if (turn + 1) * c.threads > across * t.quads:
            block = f"min({block}, {across * t.quads - 1}u)"
        keys = plus(times(tile, across), "across")
        if self.ragged:
            keys = f"min({keys}, {self.a.keys // QUAD - 1}u)"
        rows = (plus(times("quad", QUAD), str(e)) for e in range(QUAD))
        return [
            f"let block = {block};",
            f"let across = block % {across}u;",
            f"let quad = block / {across}u;",
            f"let keys = {keys};",
            *(f"let row{e} = {self.k.quad(f'({row})', 'keys')};" for e, row in enumerate(rows)),
        ]

    def _store_block(self, turn: int, tile: str) -> list[str]:
        """Turned, so that a key's four elements are a vector."""
        c, t = self.c, self.tile
        across = c.x1 // QUAD
        rows = [f"next{QUAD * turn + e}" for e in range(QUAD)]
        lines = [f"let block = {plus('li', str(turn * c.threads))};"]
        lines.append(f"let at = block % {across}u * {t.pitch}u + block / {across}u;")
        if not t.ahead:
            lines = [*self._block(turn, tile), f"let at = across * {t.pitch}u + quad;"]
            rows = [f"row{e}" for e in range(QUAD)]
        for e, lane in enumerate("xyzw"):
            value = ", ".join(f"{row}.{lane}" for row in rows)
            lines.append(f"kv[{plus('at', str(e * across * t.pitch))}] = vec4<f32>({value});")
        return self._guarded(lines, across * t.quads - turn * c.threads)

    def _guarded(self, lines: list[str], rest: int) -> list[str]:
        """Lines of the first ``rest`` threads."""
        head = f"if (li < {rest}u) {{" if rest < self.c.threads else "{"
        return [head, *indented(lines), "}"]

    def fetch(self, rows: Rows, tile: str) -> list[str]:
        lines = []
        if rows is self.k and self.blocks:
            for u in range(self._block_turns):
                kept = [f"next{QUAD * u + e} = row{e};" for e in range(QUAD)]
                lines += ["{", *indented([*self._block(u, tile), *kept]), "}"]
            return lines
        for u in range(self.tile.turns):
            place, _, _ = self._place(rows, u)
            lines += ["{", *indented([*place, f"next{u} = {self._piece(rows, tile)};"]), "}"]
        return lines

    def store(self, rows: Rows, tile: str) -> list[str]:
        """A tile into workgroup memory: of K every fourth key side by side, of V in order."""
        c, t = self.c, self.tile
        lines = []
        if rows is self.k and self.blocks:
            for u in range(self._block_turns):
                lines += self._store_block(u, tile)
            return lines
        for u in range(t.turns):
            place, _, _ = self._place(rows, u)
            at = f"key * {t.quads}u + quad"
            if rows is self.k:
                at = f"(key % 4u * {c.x1 // QUAD}u + key / 4u) * {t.pitch}u + quad"
            value = f"next{u}" if t.ahead else self._piece(rows, tile)
            body = [*place, f"kv[{at}] = {value};"]
            lines += self._guarded(body, c.x1 * t.quads - u * c.threads)
        return lines
