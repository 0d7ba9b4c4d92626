"""Small modules with a planted property, all functions of the type (i32, i32) -> ()."""

from collections.abc import Mapping, Sequence

from nnjit_studio.wasm_file.instructions import CODES, encode
from nnjit_studio.wasm_file.leb import unsigned
from nnjit_studio.wasm_file.module import MAGIC
from nnjit_studio.wasm_file.sections import section, sized, text, vector


def op(name: str, *immediates: int) -> bytes:
    return encode(CODES[name], immediates)


END = op("end")


def module(
    bodies: Sequence[bytes], names: Mapping[int, str], exports: Mapping[str, int] | None = None
) -> bytes:
    exported = [text(name) + b"\0" + unsigned(n) for name, n in (exports or {}).items()]
    parts = [
        section(1, vector([b"\x60\x02\x7f\x7f\x00"])),
        section(3, vector([b"\0"] * len(bodies))),
        section(5, vector([b"\0\1"])),
        *([section(7, vector(exported))] if exported else []),
        section(10, vector([sized(body) for body in bodies])),
    ]
    if names:
        named = [unsigned(n) + text(name) for n, name in sorted(names.items())]
        parts.append(section(0, text("name") + b"\1" + sized(vector(named))))
    return MAGIC + b"".join(parts)


def nops(count: int) -> bytes:
    return b"\0" + op("nop") * count + END


def locals_(count: int) -> bytes:
    """With the two parameters, ``count`` locals."""
    return b"\1" + unsigned(count - 2) + b"\x7f" + END


def jumps(count: int) -> bytes:
    return b"\0" + op("local.get", 0) + op("br_table", *[0] * (count + 1)) + END


def ifs(count: int, values: int) -> bytes:
    """``count`` ifs that each hold ``values`` additions."""
    work = op("local.get", 1) + op("i32.eqz") * values + op("local.set", 1)
    return b"\0" + (op("local.get", 0) + op("if", -64) + work + END) * count + END


def products(sums: int, reads: int) -> bytes:
    """A loop with ``sums`` sums of products; it first reads ``reads`` vectors, into locals.

    Alive at once are the sums, what was read, and one product or one splat.
    """
    first = 2
    body = b"".join(
        op("local.get", 0) + op("v128.load", 4, 16 * i, 0) + op("local.set", first + sums + i)
        for i in range(reads)
    )
    for i in range(sums):
        body += op("local.get", first + i) + op("local.get", first + sums + i % reads)
        body += op("local.get", 0) + op("v128.load32_splat", 2, 4 * i, 0)
        body += op("f32x4.mul") + op("f32x4.add") + op("local.set", first + i)
    loop = op("loop", -64) + body + op("local.get", 1) + op("br_if", 0) + END
    stores = b"".join(
        op("local.get", 0) + op("local.get", first + i) + op("v128.store", 4, 16 * i, 0)
        for i in range(sums)
    )
    return b"\1" + unsigned(sums + reads) + b"\x7b" + loop + stores + END


def stacked(count: int, loop: bool = True) -> bytes:
    """``count`` vectors on the operand stack at once, without a local."""
    body = b"".join(op("local.get", 0) + op("v128.load", 4, 16 * i, 0) for i in range(count))
    body = op("local.get", 1) + body + op("f32x4.add") * (count - 1) + op("v128.store", 4, 0, 0)
    if not loop:
        return b"\0" + body + END
    return b"\0" + op("loop", -64) + body + op("local.get", 1) + op("br_if", 0) + END + END
