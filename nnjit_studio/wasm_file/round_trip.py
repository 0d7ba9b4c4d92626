"""Decoding and encoding a whole module again, as a check of the tables."""

from __future__ import annotations

from dataclasses import dataclass

from nnjit_studio.errors import BugError, WasmError
from nnjit_studio.wasm_file.edit import replace
from nnjit_studio.wasm_file.instructions import encode, header, parse
from nnjit_studio.wasm_file.leb import unsigned
from nnjit_studio.wasm_file.module import read
from nnjit_studio.wasm_file.tokens import cut


@dataclass(frozen=True)
class RoundTrip:
    """Functions of a module, by what became of them.

    ``identical`` were decoded and encoded to the same bytes; ``padded`` hold
    numbers in more bytes than they need; ``unknown`` could not be decoded, for the
    reasons given. The last two are copied.
    """

    functions: int
    instructions: int
    identical: int
    padded: int
    unknown: tuple[str, ...]


def round_trip(data: bytes) -> RoundTrip:
    """Decode every function of a module, encode it again, and put the module together.

    Raises
    ------
    WasmError
        When the module is malformed.
    BugError
        When the module that results is another one.
    """
    module = read(data)
    known: dict[bytes, bytes] = {}
    bodies: dict[int, bytes] = {}
    identical = padded = instructions = 0
    unknown: list[str] = []
    for index in module.defined:
        body = module.body(index)
        try:
            again, count = _again(body, known)
        except WasmError as e:
            unknown.append(e.error)
            continue
        instructions += count
        identical += again == body
        padded += len(again) < len(body)
        if again != body and len(again) >= len(body):
            raise BugError(f"Function {index} is encoded to other bytes than it was decoded from.")
        bodies[index] = again if again == body else body
    if replace(module, bodies) != data:
        raise BugError("The module changed although none of its functions did.")
    return RoundTrip(len(module.bodies), instructions, identical, padded, tuple(unknown))


def _again(body: bytes, known: dict[bytes, bytes]) -> tuple[bytes, int]:
    groups, start = header(body)
    tokens = cut(body[start:])
    for token in set(tokens):
        if token not in known:
            known[token] = encode(*parse(token))
    declared = b"".join(unsigned(count) + type_ for count, type_ in groups)
    code = b"".join(map(known.__getitem__, tokens))
    return unsigned(len(groups)) + declared + code, len(tokens)
