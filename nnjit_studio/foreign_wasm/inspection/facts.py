"""Facts of single functions, gathered fast enough for every function of a large module.

Nothing is decoded that a count does not need: a body is cut into instructions, and
counts come from their first bytes. Only functions whose loops may hold more vectors
than fit are decoded and followed (:func:`~nnjit_studio.wasm_file.flow.vector_peaks`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import WasmError
from nnjit_studio.wasm_file import leb
from nnjit_studio.wasm_file.flow.vectors import VectorPeaks, vector_peaks
from nnjit_studio.wasm_file.instructions import CODES, decode, header
from nnjit_studio.wasm_file.module import Module
from nnjit_studio.wasm_file.opcodes import SIGNATURES, codes
from nnjit_studio.wasm_file.tokens import cut, opcode_at

V128 = 0x7B
SIMD_PREFIX, LOOP, JUMP_TABLE = 0xFD, CODES["loop"], CODES["br_table"]
GET, SET = CODES["local.get"], CODES["local.set"]
DIRECT = (CODES["call"], CODES["return_call"])
SPLITS = codes("loop if else br_if br_table catch catch_all try_table") | codes("block if")
FOLLOWED_FROM = 8
"""Functions that surely hold fewer vectors at once are not followed."""
V8_LOCALS = 50_000
"""What V8 takes; the vectors of a function that has more are not followed."""
FOLLOWED_BITS = 1 << 30
"""Vector locals times blocks; a file made for that could take all memory."""

_CONTROL = np.zeros(256, bool)
_CONTROL[list(codes("block loop if else end br br_table return unreachable try catch"))] = True


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """What is known of a function without compiling it.

    ``blocks`` are its basic blocks; ``locals`` counts parameters too;
    ``jump_table`` is the length of its longest jump table. ``live_vectors`` is the
    most vectors that live at once in one of its loops, None where a bound shows that
    they are fewer than eight, where it has no loop with vectors, or with a problem; ``spills`` are
    those of an innermost loop beyond V8's registers on x64, without what it only
    reads. ``digest`` names the body's bytes, ``shape`` its local types and opcodes
    alone, without indices and constants.
    ``problem`` is why it could not be read, with counts of zero, or why its vectors
    could not be followed.
    """

    index: int
    bytes: int
    digest: str
    shape: str = ""
    instructions: int = 0
    blocks: int = 0
    locals: int = 0
    loops: int = 0
    simd: int = 0
    jump_table: int = 0
    live_vectors: int | None = None
    spills: int = 0
    callees: tuple[int, ...] = ()
    problem: str = ""


def facts(module: Module, indices: Iterable[int]) -> Iterator[FunctionFacts]:
    """The facts of these defined functions."""
    vectors = _VectorBalance()
    for index in indices:
        body = module.body(index)
        known = FunctionFacts(index, len(body), _name(body))
        try:
            yield _facts(module, known, body, vectors)
        except WasmError as e:
            yield replace(known, problem=e.error)


def _facts(
    module: Module, known: FunctionFacts, body: bytes, vectors: _VectorBalance
) -> FunctionFacts:
    groups, start = header(body)
    tokens = cut(body[start:])
    heads = bytes(map(itemgetter(0), tokens))
    codes_ = np.frombuffer(heads, np.uint8)
    types = module.type_of(known.index).params + b"".join(t[:1] * n for n, t in groups)
    simd, loops = heads.count(SIMD_PREFIX), heads.count(LOOP)
    live, problem = None, ""
    if simd and loops and len(types) <= V8_LOCALS:
        try:
            live = _live_vectors(module, known.index, body, tokens, codes_, types, vectors)
        except WasmError as e:
            problem = e.error
    tables = (tokens[i] for i in np.flatnonzero(codes_ == JUMP_TABLE))
    called = {tokens[i] for code in DIRECT for i in np.flatnonzero(codes_ == code)}
    return replace(
        known,
        shape=_name(types + heads),
        instructions=len(tokens),
        blocks=1 + sum(map(heads.count, SPLITS)) + heads.count(CODES["if"]),
        locals=len(types),
        loops=loops,
        simd=simd,
        jump_table=max((leb.read_unsigned(token, 1)[0] for token in tables), default=0),
        live_vectors=max(live.loops.values()) if live else None,
        spills=live.spills if live else 0,
        callees=tuple(sorted(leb.read_unsigned(token, 1)[0] for token in called)),
        problem=problem,
    )


def _live_vectors(
    module: Module,
    index: int,
    body: bytes,
    tokens: Sequence[bytes],
    heads: NDArray[np.uint8],
    types: bytes,
    vectors: _VectorBalance,
) -> VectorPeaks | None:
    """The most vectors that live at once in a loop; None when they are surely few.

    At a point there cannot be more than the vector locals and the vectors on the
    stack. The latter are counted within straight code. A function that cannot be
    followed is a WasmError.
    """
    named = [n for n, type_ in enumerate(types) if type_ == V128]
    balance = vectors.of(tokens, named)
    level = np.cumsum(balance)
    ends = np.flatnonzero(_CONTROL[heads])
    base = np.concatenate(([0], level[ends]))[np.searchsorted(ends, np.arange(len(tokens)))]
    if len(named) + int((level - base).max()) < FOLLOWED_FROM:
        return None
    if len(named) * int(_CONTROL[heads].sum()) > FOLLOWED_BITS:
        raise WasmError("It has too many blocks and vectors to say which of them live at once.")
    return vector_peaks(module, index, decode(body))


def _name(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


class _VectorBalance(dict[bytes, int]):
    """By how much an instruction changes the number of vectors on the stack."""

    def __missing__(self, token: bytes) -> int:
        taken, given = SIGNATURES.get(opcode_at(token, 0)[0], ("", ""))
        self[token] = value = given.count("v") - taken.count("v")
        return value

    def of(self, tokens: Sequence[bytes], vector_locals: Sequence[int]) -> NDArray[np.int64]:
        found = np.fromiter(map(self.__getitem__, tokens), np.int64, len(tokens))
        if vector_locals:
            moves = {bytes([GET]) + leb.unsigned(n): 1 for n in vector_locals}
            moves |= {bytes([SET]) + leb.unsigned(n): -1 for n in vector_locals}
            found += np.fromiter((moves.get(t, 0) for t in tokens), np.int64, len(tokens))
        return found
