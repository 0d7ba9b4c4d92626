"""How often each size of an open dimension comes, and sizes that stand for all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from nnjit_studio.errors import UserError
from nnjit_studio.model.survey import Survey
from nnjit_studio.workbench.inputs.texts import lengths_of, tokenizer_beside
from nnjit_studio.workbench.inputs.values import read_npz, sizes_of

FEW = 5
"""Sizes that stand for all: the middle one of each fifth of the runs."""
Histogram = Mapping[int, float]
"""Runs by size."""


def read_histogram(paths: Sequence[Path], survey: Survey, name: str) -> Histogram:
    """Sizes of a dimension in files: one a line, maybe with a count behind it; texts, whose tokens
    count; and inputs as .npz, of which each file is one run.

    Raises
    ------
    UserError
        When one cannot be read, none has a size, an .npz has no input with the dimension, or there
        are texts and no tokenizer lies beside the model.
    """
    found: Counter[int] = Counter()
    for path in paths:
        if path.suffix == ".npz":
            found[_recorded(path, survey, name)] += 1
        else:
            found.update(_listed(path, survey.path))
    found = Counter({size: count for size, count in found.items() if size > 0 and count > 0})
    if not found:
        names = ", ".join(map(str, paths))
        raise UserError(f"{names} has no sizes.", "Write one size a line.")
    return found


def _recorded(path: Path, survey: Survey, name: str) -> int:
    """The size that inputs have."""
    sizes = sizes_of(read_npz(path, survey), survey)
    if name not in sizes:
        raise UserError(f"{path.name} has no input with the dimension {name}.")
    return sizes[name]


def _listed(path: Path, model: Path) -> Counter[int]:
    """Sizes, or lengths of texts."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise UserError(f"{path} cannot be read: {e}.") from e
    rows = [line.replace(",", " ").split() for line in lines if line.strip()]
    found: Counter[int] = Counter()
    if all(len(row) <= 2 and all(word.isdecimal() for word in row) for row in rows):
        for size, count in ((row[0], row[1] if len(row) > 1 else "1") for row in rows):
            found[int(size)] += int(count)
    else:
        tokenizer = tokenizer_beside(model)
        if tokenizer is None:
            raise UserError(
                f"{path} has lines that are no sizes, and no tokenizer.json lies beside the model.",
                "Write one size a line, with a count behind it where it comes more than once.",
            )
        found.update(lengths_of(tokenizer, [line for line in lines if line.strip()]))
    return found


def typical(histogram: Histogram, few: int = FEW) -> tuple[int, ...]:
    """A few sizes that stand for all, ascending."""
    whole, sizes = sum(histogram.values()), []
    for part in range(few):
        wanted, before = whole * (part + 0.5) / few, 0.0
        for size in sorted(histogram):
            before += histogram[size]
            if before >= wanted:
                sizes.append(size)
                break
    return tuple(dict.fromkeys(sizes))


def runs_at(histogram: Histogram, sizes: Sequence[int]) -> tuple[float, ...]:
    """Runs by these sizes: each run counts for the one that is nearest, as a ratio."""
    found: Counter[int] = Counter()
    for size, count in histogram.items():
        found[min(sizes, key=lambda n: max(n / size, size / n))] += count  # type: ignore[assignment]
    return tuple(float(found[n]) for n in sizes)
