"""Integer operations on affine forms."""

from __future__ import annotations

from nnjit_studio.foreign_wasm.offload.lift.terms import Linear, Unknown, Value, number


def why(*values: Value) -> str:
    """The reason of the first that is not known."""
    return next((v.reason for v in values if isinstance(v, Unknown)), "integer")


def integers(word: str, a: Value, b: Value) -> Value:
    """An operation on integers; unknown where it is not affine."""
    if not isinstance(a, Linear) or not isinstance(b, Linear):
        return Unknown(why(a, b))
    if word == "add":
        return a.plus(b)
    if word == "sub":
        return a.plus(b, -1)
    if not a.terms and word == "mul":
        a, b = b, a
    if b.terms:
        return Unknown("stride")
    c = b.constant
    if word == "mul":
        return a.times(c)
    if word == "shl":
        return a.times(1 << (c & 31))
    return _bits(word, a, c)


def _bits(word: str, a: Linear, c: int) -> Value:
    """Bitwise operations with a constant, where they are arithmetic."""
    if not a.terms:
        value, bits = a.constant % (1 << 32), c % (1 << 32)
        results = {
            "or": value | bits, "and": value & bits,
            "shr_u": value >> (c & 31), "shr_s": a.constant >> (c & 31),
        }  # fmt: skip
        return number(results[word])
    if word == "or" and c >= 0 and _low_zeros(a) > c.bit_length() - 1:
        return a.plus(number(c))
    return Unknown("index")


def _low_zeros(a: Linear) -> int:
    """Bits that are 0 at the low end of an affine form, whatever its atoms are."""
    factors = [c for _, c in a.terms] + ([a.constant] if a.constant else [])
    return min((c & -c).bit_length() - 1 for c in factors)
