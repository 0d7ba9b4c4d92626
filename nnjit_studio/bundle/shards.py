"""The weights of a bundle in files of some megabytes, each named by its contents."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnjit_studio.bundle.manifest import BundleFile
from nnjit_studio.errors import BundleError
from nnjit_studio.model import ALIGNMENT_BYTES

SHARD_BYTES = 4 << 20
"""What travels again where a little has changed; more files cost requests."""
LEAST_SHARD_BYTES = 1 << 16
MOST_SHARDS = 4000
WEIGHTS_FILE = "weights.bin"
"""The only file of weights that are not larger than a shard."""


@dataclass(frozen=True)
class Shard:
    """Bytes ``begin`` to ``begin + entry.nbytes`` of the weights, which lie in ``entry``."""

    begin: int
    entry: BundleFile


def cut(weights: Path, starts: Iterable[int], nbytes: int) -> tuple[Shard, ...]:
    """Where the weights are cut, and what the parts hold.

    A weight of half a shard or more begins a new one, so that a change of size before it leaves
    its shards as they are; smaller ones are gathered, and none but a larger one is cut.

    Parameters
    ----------
    weights
        The weights file of a plan.
    starts
        Offsets at which its weights begin, in bytes.
    nbytes
        Size of a shard; 0 for one file.

    Raises
    ------
    BundleError
        When ``nbytes`` is too small.
    """
    total = weights.stat().st_size
    if nbytes and not (nbytes >= LEAST_SHARD_BYTES and total <= MOST_SHARDS * nbytes):
        raise BundleError(
            f"Shards of {nbytes} bytes are too small for {total} bytes of weights.",
            f"Use at least {max(LEAST_SHARD_BYTES, -(-total // MOST_SHARDS))}, or 0 for one file.",
        )
    if not nbytes or total <= nbytes:
        return (Shard(0, BundleFile(WEIGHTS_FILE, *_hashed(weights, 0, total))),)
    nbytes -= nbytes % ALIGNMENT_BYTES
    ends = [*_ends(sorted({s for s in starts if 0 < s < total}), total, nbytes), total]
    shards = []
    for begin, end in zip([0, *ends[:-1]], ends, strict=True):
        digest, size = _hashed(weights, begin, end - begin)
        shards.append(Shard(begin, BundleFile(f"weights/{digest}.bin", digest, size)))
    return tuple(shards)


def _ends(starts: Sequence[int], total: int, nbytes: int) -> Iterator[int]:
    """Where all shards but the last end."""
    begin = 0
    for start, end in zip([0, *starts], [*starts, total], strict=True):
        if start > begin and (end - start >= nbytes // 2 or end - begin > nbytes):
            yield start
            begin = start
        while end - begin > nbytes:
            begin += nbytes
            yield begin


def chunks_of(
    weights: Path, begin: int, nbytes: int, chunk_bytes: int = 1 << 20
) -> Iterator[bytes]:
    """A part of a file, in chunks."""
    with weights.open("rb") as source:
        source.seek(begin)
        while nbytes > 0 and (chunk := source.read(min(chunk_bytes, nbytes))):
            nbytes -= len(chunk)
            yield chunk


def _hashed(weights: Path, begin: int, nbytes: int) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    for chunk in chunks_of(weights, begin, nbytes):
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size
