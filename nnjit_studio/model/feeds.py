"""Inputs of a model: read from a file, or seeded and valid for what names tell."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnjit_studio.errors import UserError
from nnjit_studio.model.graph import NUMPY_DTYPES, TensorSpec

Feeds = Mapping[str, NDArray[Any]]
"""Inputs by name."""
VOCABULARY = 1000
"""Token ids are drawn below it: a valid index of every vocabulary."""
_BAD_ZIP = (zipfile.BadZipFile, zlib.error, NotImplementedError)
_LEAST_UNPACKED, _RATIO = 256 << 20, 20
"""Bytes that any file of arrays may unpack to, and times its size from there on."""
GIVEN_AS = {
    "float64": "float32", "bfloat16": "float32", "int16": "int32", "uint16": "int32",
    "uint32": "int64", "uint64": "int64",
}  # fmt: skip
"""Dtypes of arrays that no input has here, and those in which they are given: unsigned
integers of 64 bits as signed ones with their bits."""


def values_of(feeds: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Whole-number inputs of one element."""
    return {
        n: int(a.reshape(())) for n, a in feeds.items() if a.size == 1 and a.dtype.kind in "iub"
    }


def plain(shape: Sequence[int], dtype: np.dtype[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Floats in [-1, 1); whole numbers one: a valid index almost everywhere, and an open mask."""
    drawn = rng.uniform(-1, 1, shape) if dtype.kind == "f" else np.ones(shape)
    return drawn.astype(dtype)


def example_feeds(inputs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Inputs to run a model on when none are given."""
    rng = np.random.default_rng(0)
    return {spec.name: plain(spec.shape, NUMPY_DTYPES[spec.dtype], rng) for spec in inputs}


def seeded_feeds(inputs: Sequence[TensorSpec]) -> dict[str, NDArray[Any]]:
    """Like :func:`example_feeds`, with token ids in ``[0, VOCABULARY)`` and places in order."""
    rng = np.random.default_rng(0)
    feeds: dict[str, NDArray[Any]] = {}
    for spec in inputs:
        dtype = NUMPY_DTYPES[spec.dtype]
        whole, place = dtype.kind != "f", "position" in spec.name
        if whole and place:
            drawn: NDArray[Any] = np.broadcast_to(np.arange(spec.shape[-1]), spec.shape)
        elif whole and spec.name.endswith("ids") and "type" not in spec.name:
            drawn = rng.integers(0, VOCABULARY, spec.shape)
        else:
            drawn = plain(spec.shape, dtype, rng)
        feeds[spec.name] = drawn.astype(dtype)
    return feeds


def session_feeds(session: Any, dims: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Inputs of an ONNX Runtime session, whose free sizes are ``dims`` by place or name, or 1.

    Masks are open, token types 0, ids 2 to 49, floats normal.
    """
    rng = np.random.default_rng(0)
    feeds: dict[str, NDArray[Any]] = {}
    for port in session.get_inputs():
        shape = [
            d if isinstance(d, int) else dims.get(f"{port.name}.{axis}", dims.get(d, 1))
            for axis, d in enumerate(port.shape)
        ]
        if "float" in port.type:
            real = np.float16 if "16" in port.type else np.float32
            feeds[port.name] = rng.standard_normal(shape).astype(real)
            continue
        whole = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}.get(port.type, np.uint8)
        fixed = 1 if "mask" in port.name else 0 if "token_type" in port.name else None
        ids = rng.integers(2, 50, shape) if fixed is None else np.full(shape, fixed)
        feeds[port.name] = ids.astype(whole)
    return feeds


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an ``.npz`` file by name, in dtypes that inputs have here.

    Raises
    ------
    UserError
        When it cannot be read, or unpacks to more than a real file would.
    """
    try:
        if not path.is_file() and path.exists():
            raise ValueError  # opening a FIFO would wait for ever
        with zipfile.ZipFile(path) as stored:
            unpacked = sum(member.file_size for member in stored.infolist())
        if unpacked > max(_LEAST_UNPACKED, _RATIO * path.stat().st_size):
            raise UserError(
                f"{str(path)!r} unpacks to {unpacked >> 20} MiB, too much for a file of its size.",
                "Write it with numpy.savez, uncompressed.",
            )
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: in_known_dtype(arrays[name]) for name in arrays.files}
    except FileNotFoundError as e:
        raise UserError(f"There is no file {str(path)!r}.", "Check the path.") from e
    except (OSError, EOFError, MemoryError, ValueError, TypeError, *_BAD_ZIP) as e:
        raise UserError(
            f"{str(path)!r} is not an .npz file of arrays.", "Write it with numpy.savez."
        ) from e


def in_known_dtype(array: NDArray[Any]) -> NDArray[Any]:
    """The array itself, or in the dtype in which an input of its own is given."""
    return array.astype(GIVEN_AS.get(str(array.dtype), array.dtype), copy=False)
