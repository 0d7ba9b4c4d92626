"""The sizes at which a model is imported."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence, Set

from nnjit_studio.compiler.any_size.inputs import Sizes, far_size, random_size, size_of_kind
from nnjit_studio.compiler.any_size.probe import Probe
from nnjit_studio.errors import ModelError
from nnjit_studio.model.size import Size

IMPORTS = 4
"""Three decide a formula, the fourth may refuse it."""
EVEN = 2
"""Even sizes behind odd ones."""
_DRAWN = 40
_SCALES = (1, 2, 4, 8, 16, 32, 64)


def sizes_to_import(
    found: Probe,
    atoms: Sequence[Size],
    example: Sizes,
    odd: bool = False,
    but: Set[int] = frozenset(),
    seed: int = 1,
) -> list[dict[str, int]]:
    """Sizes at which no atom is 1 or always the same, and at which formulas that differ are told
    apart. The last ones are large: what is one column of small sizes, and other code therefore, may
    be several there. With ``odd`` these are odd, and even ones follow, without which
    ``2 floordiv(n + 1, 2)`` is ``n + 1``."""
    rng = random.Random(seed)
    both = list(itertools.combinations(found.dims, 2))
    best: tuple[int, list[dict[str, int]]] | None = None
    for scale, _ in itertools.product(_SCALES, range(_DRAWN)):
        drawn = [
            {d.name: random_size(d, scale, rng) for d in found.dims} for _ in range(IMPORTS - 1)
        ]
        drawn.append({d.name: far_size(d, example[d.name], scale, rng) for d in found.dims})
        if odd:
            kinds = [1] * IMPORTS + [0] * EVEN
            drawn = [
                {d.name: size_of_kind(d, sizes[d.name], kind) for d in found.dims}
                for sizes, kind in zip([*drawn, *drawn[-EVEN:]], kinds, strict=True)
            ]
        rows = [tuple(a.at(sizes) for sizes in drawn) for a in atoms]
        apart = all(len(set(sizes.values())) == len(sizes) for sizes in drawn)
        apart = apart and all(but.isdisjoint(row) for row in rows)
        if not apart or any(min(row) < 2 or len(set(row)) == 1 for row in rows):
            continue
        alike = sum(_alike_rows(a, b) for a, b in itertools.combinations(rows, 2))
        # The larger of two sizes is each of them somewhere.
        orders = ({s[a.name] < s[b.name] for s in drawn} for a, b in both)
        alike += sum(len(order) == 1 for order in orders)
        # Of two or three places there is often other code.
        alike += sum(n < 4 for sizes in drawn for n in sizes.values())
        if best is None or alike < best[0]:
            best = alike, drawn
        if not alike:
            break
    if best is None:
        raise ModelError("No sizes were found to import the model at.", "Fix its sizes with --dim.")
    return best[1]


def _alike_rows(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether one is a multiple of the other plus a constant."""
    x, y = [n - a[0] for n in a[1:]], [n - b[0] for n in b[1:]]
    return all(p * y[0] == q * x[0] for p, q in zip(x, y, strict=True))
